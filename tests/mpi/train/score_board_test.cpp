// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "strata/util/label_sets.hpp"
#include "support/mpi_world.hpp"
#include "task/class_scores.hpp"

namespace strata::train {
namespace {

/// The scores that a board is to give.
struct Wanted {
  Count nodes = 0;
  double loss = 0, accuracy = 0, macro_f1 = 0, roc_auc = 0;
};

struct Prediction {
  std::vector<float> logits;
  std::int32_t label = 0;

  std::int32_t best() const {
    std::int32_t best = 0;
    for (std::size_t c = 1; c < logits.size(); ++c) {
      if (logits[c] > logits[at(best)]) best = static_cast<std::int32_t>(c);
    }
    return best;
  }
};

/// Logits are multiples of a quarter, so that many scores tie; labels follow the logits more often than not.
std::vector<Prediction> random_predictions(int count, int classes, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> quarter(-6, 6), label(0, classes - 1), coin(0, 2);
  std::vector<Prediction> all(at(count));
  for (Prediction& p : all) {
    for (int c = 0; c < classes; ++c) p.logits.push_back(static_cast<float>(quarter(random)) / 4);
    p.label = coin(random) > 0 ? p.best() : label(random);
  }
  return all;
}

/// The share of pairs (positive, negative) in the right order; ties count half.
double naive_auc(const std::vector<Prediction>& all) {
  double right = 0, pairs = 0;
  for (const Prediction& p : all) {
    for (const Prediction& n : all) {
      if (p.label != 1 || n.label != 0) continue;
      const float a = p.logits[1] - p.logits[0], b = n.logits[1] - n.logits[0];
      right += a > b ? 1 : a == b ? 0.5 : 0;
      ++pairs;
    }
  }
  return right / pairs;
}

double naive_macro_f1(const std::vector<Prediction>& all, int classes) {
  double sum = 0;
  int present = 0;
  for (int c = 0; c < classes; ++c) {
    double hits = 0, predicted = 0, labelled = 0;
    for (const Prediction& p : all) {
      hits += p.best() == c && p.label == c;
      predicted += p.best() == c;
      labelled += p.label == c;
    }
    if (predicted + labelled == 0) continue;
    ++present;
    if (hits == 0) continue;
    const double precision = hits / predicted, recall = hits / labelled;
    sum += 2 * precision * recall / (precision + recall);
  }
  return sum / present;
}

Wanted naive_scores(const std::vector<Prediction>& all, int classes) {
  Wanted scores{.nodes = static_cast<Count>(all.size())};
  for (const Prediction& p : all) {
    double sum = 0;
    for (const float logit : p.logits) sum += std::exp(static_cast<double>(logit));
    scores.loss -= std::log(std::exp(static_cast<double>(p.logits[at(p.label)])) / sum);
    scores.accuracy += p.best() == p.label;
  }
  scores.loss /= static_cast<double>(all.size());
  scores.accuracy /= static_cast<double>(all.size());
  scores.macro_f1 = naive_macro_f1(all, classes);
  scores.roc_auc = classes == 2 ? naive_auc(all) : std::numeric_limits<double>::quiet_NaN();
  return scores;
}

enum class PredictionSpread { round_robin, last_rank };

Scores finish(ScoreBoard& board) {
  ThreadPool pool(2);
  return board.finish({.communicator = &test::world().communicator(), .pool = &pool});
}

Scores score(const std::vector<Prediction>& all, int classes,
             PredictionSpread spread = PredictionSpread::round_robin) {
  ClassScoreBoard board({.num_classes = classes});
  const auto rank = at(test::world().rank()), size = at(test::world().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t owner = spread == PredictionSpread::last_rank ? size - 1 : i % size;
    if (owner == rank) board.add(all[i].logits, &all[i].label);
  }
  return finish(board);
}

void expect_near(const Scores& got, const Wanted& wanted) {
  EXPECT_EQ(got.nodes, wanted.nodes);
  EXPECT_NEAR(got.loss, wanted.loss, 1e-12);
  EXPECT_NEAR(got.of("accuracy"), wanted.accuracy, 1e-12);
  EXPECT_NEAR(got.of("macro_f1"), wanted.macro_f1, 1e-12);
  EXPECT_EQ(std::isnan(got.of("roc_auc")), std::isnan(wanted.roc_auc)) << got.of("roc_auc");
  if (!std::isnan(wanted.roc_auc)) {
    EXPECT_NEAR(got.of("roc_auc"), wanted.roc_auc, 1e-12);
  }
}

TEST(ScoreBoard, EqualsTheNaiveScores) {
  for (const int classes : {2, 3, 7}) {
    for (const int count : {1, 2, 17, 400}) {
      const auto all = random_predictions(count, classes, static_cast<std::uint32_t>(1000 * classes + count));
      SCOPED_TRACE(testing::Message() << classes << " classes, " << count << " nodes");
      expect_near(score(all, classes), naive_scores(all, classes));
      expect_near(score(all, classes, PredictionSpread::last_rank), naive_scores(all, classes));
    }
  }
}

/// A node with a set of classes; classes 3 and beyond 33 never occur, class 5 always.
struct SetPrediction {
  std::vector<float> logits;
  std::vector<std::int32_t> words;
};

std::vector<SetPrediction> random_sets(int count, Count classes, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> quarter(-6, 6), coin(0, 2);
  std::vector<SetPrediction> all(at(count));
  for (SetPrediction& p : all) {
    p.words.resize(at(label_set_words(classes)));
    for (Count c = 0; c < classes; ++c) {
      p.logits.push_back(static_cast<float>(quarter(random)) / 4);
      if (c == 5 || (c != 3 && c < 34 && coin(random) == 0)) add_class(p.words.data(), c);
    }
  }
  return all;
}

Wanted naive_scores(const std::vector<SetPrediction>& all, Count classes) {
  Wanted scores{.nodes = static_cast<Count>(all.size())};
  double f1 = 0, areas = 0;
  int present = 0, defined = 0;
  for (Count c = 0; c < classes; ++c) {
    double hits = 0, either = 0, right = 0, pairs = 0;
    for (const SetPrediction& p : all) {
      const double x = p.logits[at(c)];
      const bool wanted = has_class(p.words.data(), c);
      scores.loss += std::log1p(std::exp(wanted ? -x : x));
      scores.accuracy += wanted == (x > 0);
      hits += wanted && x > 0;
      either += (wanted ? 1 : 0) + (x > 0 ? 1 : 0);
      for (const SetPrediction& n : all) {
        if (!wanted || has_class(n.words.data(), c)) continue;
        const double y = n.logits[at(c)];
        right += x > y ? 1 : x == y ? 0.5 : 0;
        ++pairs;
      }
    }
    if (either > 0) f1 += 2 * hits / either, ++present;
    if (pairs > 0) areas += right / pairs, ++defined;
  }
  const double decisions = static_cast<double>(scores.nodes * classes);
  scores.loss /= decisions;
  scores.accuracy /= decisions;
  scores.macro_f1 = f1 / present;
  scores.roc_auc = defined > 0 ? areas / defined : std::numeric_limits<double>::quiet_NaN();
  return scores;
}

Scores score(const std::vector<SetPrediction>& all, const ClassScoreOptions& options) {
  ClassScoreBoard board(options);
  const std::vector<std::int32_t> none = unlabelled_set(options.num_classes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(i) % test::world().size() != test::world().rank()) continue;
    board.add(all[i].logits, all[i].words.data());
    board.add(all[i].logits, none.data());
  }
  return finish(board);
}

TEST(ScoreBoard, ScoresSetsOfClasses) {
  for (const Count classes : {6, 40}) {
    for (const int count : {1, 90}) {
      const auto all = random_sets(count, classes, static_cast<std::uint32_t>(count));
      SCOPED_TRACE(testing::Message() << classes << " classes, " << count << " nodes");
      expect_near(score(all, {.num_classes = classes, .multi_label = true}), naive_scores(all, classes));
    }
  }
}

TEST(ScoreBoard, HasNoCurvesOfSetsThatNobodyAskedFor) {
  const auto all = random_sets(90, 6, 1);
  Wanted wanted = naive_scores(all, 6);
  ASSERT_FALSE(std::isnan(wanted.roc_auc));
  wanted.roc_auc = std::numeric_limits<double>::quiet_NaN();
  expect_near(score(all, {.num_classes = 6, .multi_label = true, .roc_auc = false}), wanted);
}

TEST(ScoreBoard, LeavesOutClassesThatDoNotOccur) {
  std::vector<Prediction> all;
  for (Prediction p : random_predictions(100, 3, 4)) {
    p.logits.resize(6, -100.0f);  // classes 3 to 5 are neither labels nor predictions
    all.push_back(p);
  }
  expect_near(score(all, 6), naive_scores(all, 6));
  EXPECT_GT(score(all, 6).of("macro_f1"), 0.5);
}

ClassCounts count_classes(const std::vector<Prediction>& all, const ClassScoreOptions& options) {
  ClassScoreBoard board(options);
  const auto rank = at(test::world().rank()), size = at(test::world().size());
  for (std::size_t i = rank; i < all.size(); i += size) board.add(all[i].logits, &all[i].label);
  finish(board);
  return board.classes();
}

TEST(ScoreBoard, CountsLabelsAndPredictionsOfAllRanks) {
  const auto all = random_predictions(200, 5, 11);
  std::vector<Count> labelled(5), predicted(5), correct(5), confusion(25);
  for (const Prediction& p : all) {
    const auto label = at(p.label), best = at(p.best());
    ++labelled[label];
    ++predicted[best];
    ++confusion[label * 5 + best];
    if (label == best) ++correct[label];
  }
  const ClassCounts counts = count_classes(all, {.num_classes = 5});
  EXPECT_EQ(counts.labelled, labelled);
  EXPECT_EQ(counts.predicted, predicted);
  EXPECT_EQ(counts.correct, correct);
  EXPECT_EQ(counts.confusion, confusion);
}

TEST(ScoreBoard, KeepsNoMatrixOfManyClasses) {
  const auto all = random_predictions(20, ClassCounts::kMostInMatrix + 1, 12);
  const ClassCounts counts = count_classes(all, {.num_classes = ClassCounts::kMostInMatrix + 1});
  EXPECT_EQ(counts.labelled.size(), 101u);
  EXPECT_TRUE(counts.confusion.empty());
}

TEST(ScoreBoard, HasNoCurveWhereAClassIsMissing) {
  for (const std::int32_t label : {0, 1}) {
    auto all = random_predictions(50, 2, 6);
    for (Prediction& p : all) p.label = label;
    EXPECT_TRUE(std::isnan(score(all, 2).of("roc_auc"))) << label;
  }
  EXPECT_TRUE(std::isnan(score(random_predictions(50, 3, 6), 3).of("roc_auc")));
}

TEST(ScoreBoard, KnowsTheExtremesOfTheCurve) {
  std::vector<Prediction> all;
  for (int i = 0; i < 20; ++i) all.push_back({{0.0f, static_cast<float>(i)}, i < 9 ? 0 : 1});
  EXPECT_EQ(score(all, 2).of("roc_auc"), 1);
  for (Prediction& p : all) p.label = 1 - p.label;
  EXPECT_EQ(score(all, 2).of("roc_auc"), 0);
  for (Prediction& p : all) p.logits = {1.0f, 1.0f};
  EXPECT_EQ(score(all, 2).of("roc_auc"), 0.5);
}

TEST(ScoreBoard, HasNoCurveForADivergedModel) {
  auto all = random_predictions(50, 2, 8);
  all[7].logits[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(score(all, 2).of("roc_auc")));
}

TEST(ScoreBoard, TakesLargeLogits) {
  const Scores scores = score({{{1000.0f, -1000.0f, 0.0f}, 0}, {{1000.0f, -1000.0f, 0.0f}, 2}}, 3);
  EXPECT_DOUBLE_EQ(scores.loss, 500);
}

TEST(ScoreBoard, OfNoNodesIsZero) {
  const Scores scores = score({}, 2);
  EXPECT_EQ(scores.nodes, 0);
  EXPECT_EQ(scores.of("accuracy"), 0);
  EXPECT_EQ(scores.of("macro_f1"), 0);
  EXPECT_TRUE(std::isnan(scores.of("roc_auc")));
}

}  // namespace
}  // namespace strata::train
