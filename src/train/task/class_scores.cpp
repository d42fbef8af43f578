// SPDX-License-Identifier: Apache-2.0
#include "task/class_scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "strata/util/label_sets.hpp"
#include "task/roc_auc.hpp"

namespace strata::train {

Scores no_class_scores() {
  return {.values = {{.name = "accuracy", .title = "accuracy"},
                     {.name = "macro_f1", .title = "macro F1"},
                     {.name = "roc_auc", .title = "ROC AUC"}}};
}

std::string details_of(const ClassCounts& classes) {
  constexpr std::size_t kMost = 1000;
  const std::size_t count = classes.labelled.size();
  if (count > kMost) return {};
  nlohmann::json confusion = nullptr;
  if (!classes.confusion.empty()) {
    confusion = nlohmann::json::array();
    for (auto row = classes.confusion.begin(); row != classes.confusion.end();) {
      const auto next = row + static_cast<std::ptrdiff_t>(count);
      confusion.push_back(std::vector<Count>(row, next));
      row = next;
    }
  }
  return nlohmann::json{{"type", "classes"},
                        {"labelled", classes.labelled},
                        {"predicted", classes.predicted},
                        {"correct", classes.correct},
                        {"confusion", std::move(confusion)}}
      .dump();
}

/// Scores for ROC curves; none if no curve is wanted.
struct ClassScoreBoard::Curves {
  std::vector<ClassScores> classes;

  void add(std::size_t c, float score, bool positive) {
    (positive ? classes[c].positives : classes[c].negatives).push_back(score);
  }
};

namespace {

std::size_t num_curves(const ClassScoreOptions& options) {
  if (options.multi_label) return options.roc_auc ? at(options.num_classes) : 0;
  return options.num_classes == 2 ? 1 : 0;
}

ClassCounts no_counts(const ClassScoreOptions& options) {
  const auto classes = at(options.num_classes);
  const bool matrix = !options.multi_label && options.num_classes <= ClassCounts::kMostInMatrix;
  const std::vector<Count> zeros(classes);
  return {.labelled = zeros,
          .predicted = zeros,
          .correct = zeros,
          .confusion = std::vector<Count>(matrix ? classes * classes : 0)};
}

}  // namespace

ClassScoreBoard::ClassScoreBoard(const ClassScoreOptions& options)
    : options_(options),
      classes_(no_counts(options)),
      curves_(std::make_unique<Curves>(std::vector<ClassScores>(num_curves(options)))) {}
ClassScoreBoard::~ClassScoreBoard() = default;

void ClassScoreBoard::add(std::span<const float> logits, const std::int32_t* words) {
  if (options_.multi_label) {
    if (!is_unlabelled(words, options_.num_classes)) add_set(logits, words);
  } else if (*words >= 0) {
    add_class(logits, *words);
  }
}

void ClassScoreBoard::add_set(std::span<const float> logits, const std::int32_t* words) {
  double sum = 0;
  for (std::size_t c = 0; c < logits.size(); ++c) {
    const bool wanted = has_class(words, static_cast<Count>(c)), predicted = logits[c] > 0;
    const auto logit = static_cast<double>(logits[c]);
    sum += std::max(logit, 0.0) - (wanted ? logit : 0.0) + std::log1p(std::exp(-std::abs(logit)));
    correct_ += wanted == predicted;
    classes_.predicted[c] += predicted;
    classes_.labelled[c] += wanted;
    classes_.correct[c] += wanted && predicted;
    if (options_.roc_auc) curves_->add(c, logits[c], wanted);
  }
  ++nodes_;
  loss_ += sum / static_cast<double>(logits.size());
}

void ClassScoreBoard::add_class(std::span<const float> logits, std::int32_t label) {
  const auto best = at(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const auto wanted = at(label);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[best]);
  ++nodes_;
  loss_ += std::log(sum) - (static_cast<double>(logits[wanted]) - logits[best]);
  ++classes_.predicted[best];
  ++classes_.labelled[wanted];
  if (!classes_.confusion.empty()) ++classes_.confusion[wanted * logits.size() + best];
  if (best == wanted) {
    ++correct_;
    ++classes_.correct[best];
  }
  if (options_.num_classes == 2) curves_->add(0, logits[1] - logits[0], label == 1);
}

Scores ClassScoreBoard::finish(const ScoreWork& work) {
  const comm::Communicator& communicator = *work.communicator;
  std::vector<std::int64_t> counts{nodes_, correct_};
  communicator.all_reduce(std::span(counts));
  add_up_classes(communicator);
  std::vector<double> loss{loss_};
  communicator.all_reduce(std::span(loss));

  Scores scores = no_class_scores();
  double &accuracy = scores.values[0].value, &macro_f1 = scores.values[1].value,
         &roc_auc = scores.values[2].value;
  scores.nodes = counts[0];
  roc_auc = std::numeric_limits<double>::quiet_NaN();
  if (scores.nodes == 0) return scores;
  scores.loss = loss[0] / static_cast<double>(scores.nodes);
  accuracy = static_cast<double>(counts[1]) /
             static_cast<double>(scores.nodes * (options_.multi_label ? options_.num_classes : 1));
  const auto classes = at(options_.num_classes);
  double f1_sum = 0;
  int present = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    const Count hits = classes_.correct[c], either = classes_.predicted[c] + classes_.labelled[c];
    if (either == 0) continue;
    ++present;
    f1_sum += 2.0 * static_cast<double>(hits) / static_cast<double>(either);
  }
  macro_f1 = f1_sum / present;
  roc_auc = mean_area(work);
  return scores;
}

void ClassScoreBoard::add_up_classes(const comm::Communicator& communicator) {
  for (std::vector<Count>* counts :
       {&classes_.labelled, &classes_.predicted, &classes_.correct, &classes_.confusion})
    if (!counts->empty()) communicator.all_reduce(std::span(*counts));
}

double ClassScoreBoard::mean_area(const ScoreWork& work) {
  std::vector<ClassScores> classes = std::move(curves_->classes);
  const std::vector<double> areas = areas_under_curves(
      classes, {.communicator = work.communicator, .pool = work.pool, .alive = work.alive});
  double sum = 0;
  int defined = 0;
  for (const double area : areas) {
    if (std::isnan(area)) continue;
    sum += area;
    ++defined;
  }
  return defined == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / defined;
}

}  // namespace strata::train
