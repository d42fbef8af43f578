// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/train/task.hpp"

namespace strata::train {

/// Counts of classes as labels and as predictions.
struct ClassCounts {
  std::vector<Count> labelled, predicted, correct;  ///< per class
  /// [classes, classes], row by row: nodes by their label (row) and their predicted class
  /// (column). Empty with several labels per node, or with more than kMostInMatrix classes.
  std::vector<Count> confusion;
  static constexpr Count kMostInMatrix = 100;
};

/// The counts as ScoreBoard::details() returns them; empty if there are too many classes to read one by one.
std::string details_of(const ClassCounts& classes);

/// The data that a ClassScoreBoard keeps.
struct ClassScoreOptions {
  Count num_classes = 0;
  bool multi_label = false;
  /// Whether to keep every score of every class, 4 bytes each, for "roc_auc" with several labels per node.
  /// With two classes, one score per node is always kept.
  bool roc_auc = true;
};

/// The scores of a classifier by name, all 0.
///
/// accuracy: the share of correct nodes; with several labels per node, of correct pairs of a node and a
/// class. macro_f1: the mean over the classes that occur as a label or as a prediction, as in scikit-learn.
/// roc_auc: with two classes, that of class 1; with several labels per node, the mean over the classes that
/// some nodes have and others do not, if it was asked for; else NaN. The loss is the mean cross entropy; with
/// several labels per node, the mean of the binary ones of all classes.
Scores no_class_scores();

/// Scores of predicted classes: the largest of a node's outputs or, with several labels per node, all outputs
/// above 0.
class ClassScoreBoard final : public ScoreBoard {
 public:
  explicit ClassScoreBoard(const ClassScoreOptions& options);
  ~ClassScoreBoard() override;
  void add(std::span<const float> logits, const std::int32_t* target) override;
  Scores finish(const ScoreWork& work) override;
  std::string details() const override { return details_of(classes_); }
  /// Counts of this rank; after finish(), of all ranks.
  const ClassCounts& classes() const { return classes_; }

 private:
  struct Curves;
  void add_class(std::span<const float> logits, std::int32_t label);
  void add_set(std::span<const float> logits, const std::int32_t* words);
  double mean_area(const ScoreWork& work);
  void add_up_classes(const comm::Communicator& communicator);

  ClassScoreOptions options_;
  Count nodes_ = 0, correct_ = 0;
  double loss_ = 0;
  ClassCounts classes_;
  std::unique_ptr<Curves> curves_;  ///< of class 1 if there are two; by class with several labels per node
};

}  // namespace strata::train
