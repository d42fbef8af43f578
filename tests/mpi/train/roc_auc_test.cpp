// SPDX-License-Identifier: Apache-2.0
#include "task/roc_auc.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/mpi_world.hpp"

namespace strata::train {
namespace {

struct Scored {
  float score;
  bool positive;
};
using ClassOfAll = std::vector<Scored>;

/// Sorts all nodes of a class and adds up the positives' ranks, the mean rank where scores tie.
double by_rank_sum(ClassOfAll all) {
  if (std::ranges::any_of(all, [](const Scored& s) { return std::isnan(s.score); })) all.clear();
  std::ranges::sort(all, {}, &Scored::score);
  double rank_sum = 0, positives = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin;
    double tied = 0;
    for (; end < all.size() && all[end].score == all[begin].score; ++end) tied += all[end].positive ? 1 : 0;
    rank_sum += tied * (static_cast<double>(begin + end + 1) / 2);
    positives += tied;
    begin = end;
  }
  const double negatives = static_cast<double>(all.size()) - positives;
  if (positives == 0 || negatives == 0) return std::numeric_limits<double>::quiet_NaN();
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

struct Kind {
  int count;
  int values;  ///< distinct scores; few of them tie
  double positive_share;
};

ClassOfAll random_class(const Kind& kind, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> value(-kind.values, kind.values);
  std::bernoulli_distribution positive(kind.positive_share);
  ClassOfAll all;
  for (int i = 0; i < kind.count; ++i) {
    const bool is_positive = positive(random);
    all.push_back({static_cast<float>(value(random) + (is_positive ? kind.values / 3 : 0)) / 8, is_positive});
  }
  return all;
}

/// A few classes of every kind, also empty and one-sided ones, and one of a model that diverged.
std::vector<ClassOfAll> random_classes(std::uint32_t seed) {
  std::vector<ClassOfAll> classes;
  for (const Kind& kind :
       {Kind{1000, 5, 0.5}, Kind{1000, 100000, 0.02}, Kind{777, 300, 0.95}, Kind{0, 1, 0.5}, Kind{40, 0, 0.5},
        Kind{10, 4, 0.0}, Kind{10, 4, 1.0}, Kind{50000, 1000, 0.3}})
    classes.push_back(random_class(kind, ++seed));
  classes.push_back(random_class({50, 20, 0.5}, ++seed));
  classes.back()[17].score = std::numeric_limits<float>::quiet_NaN();
  classes.push_back(random_class({200, 20, 0.4}, ++seed));
  return classes;
}

enum class Spread { round_robin, first_rank, by_class };

std::vector<ClassScores> mine(const std::vector<ClassOfAll>& classes, Spread spread) {
  const auto size = at(test::world().size());
  std::vector<ClassScores> scores(classes.size());
  for (std::size_t c = 0; c < classes.size(); ++c) {
    for (std::size_t i = 0; i < classes[c].size(); ++i) {
      const std::size_t owner = spread == Spread::round_robin ? i % size
                                : spread == Spread::by_class  ? c % size
                                                              : 0;
      if (owner != at(test::world().rank())) continue;
      const Scored& s = classes[c][i];
      (s.positive ? scores[c].positives : scores[c].negatives).push_back(s.score);
    }
  }
  return scores;
}

TEST(RocAuc, EqualsTheRankSumOfAllNodesWhateverTheRanksAndPieces) {
  ThreadPool pool(3);
  const std::vector<ClassOfAll> classes = random_classes(20);
  for (const Spread spread : {Spread::round_robin, Spread::first_rank, Spread::by_class}) {
    for (const Count piece : {Count{61}, Count{1000}, Count{1} << 20}) {
      int signs_of_life = 0;
      std::vector<ClassScores> scores = mine(classes, spread);
      const std::vector<double> areas =
          areas_under_curves(scores, {.communicator = &test::world().communicator(),
                                      .pool = &pool,
                                      .alive = [&] { ++signs_of_life; },
                                      .piece_scores = piece});
      ASSERT_EQ(areas.size(), classes.size());
      for (std::size_t c = 0; c < classes.size(); ++c) {
        const double wanted = by_rank_sum(classes[c]);
        EXPECT_EQ(std::isnan(areas[c]), std::isnan(wanted)) << "class " << c;
        if (!std::isnan(wanted)) {
          EXPECT_EQ(areas[c], wanted) << "class " << c << ", pieces of " << piece;
        }
      }
      if (piece == 61) {
        EXPECT_GT(signs_of_life, 20);
      }
    }
  }
}

TEST(RocAuc, OfNoClassesIsNone) {
  ThreadPool pool(1);
  std::vector<ClassScores> none;
  EXPECT_TRUE(
      areas_under_curves(none, {.communicator = &test::world().communicator(), .pool = &pool, .alive = [] {}})
          .empty());
}

}  // namespace
}  // namespace strata::train
