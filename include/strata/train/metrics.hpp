// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/train/choices.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// Scores of one split over all ranks.
struct Scores {
  Count nodes = 0;
  /// Mean cross entropy; with several labels per node, the mean of the binary ones of all classes.
  double loss = 0;
  /// Share of correct nodes; with several labels per node, of correct pairs of a node and a class.
  double accuracy = 0;
  /// Mean over the classes that occur as a label or as a prediction, as in scikit-learn.
  double macro_f1 = 0;
  /// With two classes, that of class 1. With several labels per node, the mean over the classes that some
  /// nodes have and others do not, if it was asked for. Else NaN.
  double roc_auc = 0;

  double of(Metric metric) const;

  /// Whether the model with these validation scores replaces the one with `best`, because its metric is
  /// higher. NaN loses to every number and beats nothing. Without validation nodes the latest model is the
  /// best.
  bool beats(const Scores& best, Metric metric) const;
};

/// How often classes were labels and predictions.
struct ClassCounts {
  std::vector<Count> labelled, predicted, correct;  ///< per class
  /// [classes, classes], row by row: nodes by their label (row) and the class that they were predicted to be
  /// of (column). Empty with several labels per node, or with more than kMostInMatrix classes.
  std::vector<Count> confusion;
  static constexpr Count kMostInMatrix = 100;
};

/// What a ScoreBoard keeps.
struct ScoreOptions {
  Count num_classes = 0;
  bool multi_label = false;
  /// With several labels per node: whether to keep every score of every class, 4 bytes each, for
  /// Scores::roc_auc. With two classes, one score per node is always kept.
  bool roc_auc = true;
};

/// What ScoreBoard::finish() needs to add up the scores of all ranks.
struct ScoreWork {
  const comm::Communicator* communicator = nullptr;
  ThreadPool* pool = nullptr;
  std::function<void()> alive = [] {};  ///< called after every piece of work, for watchdogs
};

/// Collects the predictions of one split on this rank; finish() adds up those of all ranks.
class ScoreBoard {
 public:
  explicit ScoreBoard(const ScoreOptions& options);
  ~ScoreBoard();
  /// Adds the logits [num_classes] of a node with this label. REQUIRES: label >= 0.
  void add(std::span<const float> logits, std::int32_t label);
  /// The same for a node with a set of classes (label_sets.hpp). The predicted classes are those whose logit
  /// is above 0.
  void add_set(std::span<const float> logits, const std::int32_t* words);
  /// Calls add() or add_set(), whichever the graph needs, and nothing for a node without label.
  void add_label(std::span<const float> logits, const std::int32_t* words);
  /// The scores over all ranks. Call it only once, because it consumes the predictions. Collective; the
  /// result is the same on all ranks.
  Scores finish(const ScoreWork& work);
  /// Of this rank; after finish(), of all ranks.
  const ClassCounts& classes() const { return classes_; }

 private:
  struct Curves;
  double mean_area(const ScoreWork& work);
  void add_up_classes(const comm::Communicator& communicator);

  ScoreOptions options_;
  Count nodes_ = 0, correct_ = 0;
  double loss_ = 0;
  ClassCounts classes_;
  std::unique_ptr<Curves> curves_;  ///< of class 1 if there are two; by class with several labels per node
};

}  // namespace strata::train
