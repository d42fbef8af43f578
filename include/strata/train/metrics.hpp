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
  double loss = 0;      ///< mean cross entropy; of several labels a node, binary ones of all classes
  double accuracy = 0;  ///< share of the nodes; of several labels a node, of the pairs of a node and a class
  double macro_f1 = 0;  ///< mean over the classes that occur as a label or as a prediction, as scikit-learn
  /// Of class 1, two classes only; of several labels a node, the mean over the classes that some nodes have
  /// and some have not, where it was asked for. NaN elsewhere.
  double roc_auc = 0;

  double of(Metric metric) const;

  /// Whether the model with these validation scores replaces the one with `best`: its metric is higher, where
  /// NaN loses to every number and beats nothing. Without validation nodes the latest model is the best.
  bool beats(const Scores& best, Metric metric) const;
};

/// What a ScoreBoard keeps.
struct ScoreOptions {
  Count num_classes = 0;
  bool multi_label = false;
  /// Of several labels a node: keep every score of every class, 4 bytes each, for Scores::roc_auc. Of two
  /// classes, one score a node is always kept.
  bool roc_auc = true;
};

/// What adds up the scores of all ranks.
struct ScoreWork {
  const comm::Communicator* communicator = nullptr;
  ThreadPool* pool = nullptr;
  std::function<void()> alive = [] {};  ///< called after every piece of work, for watchdogs
};

/// Collects predictions of one split on this rank; `finish` adds up all ranks.
class ScoreBoard {
 public:
  explicit ScoreBoard(const ScoreOptions& options);
  ~ScoreBoard();
  /// logits [num_classes] of a node whose label is `label` >= 0.
  void add(std::span<const float> logits, std::int32_t label);
  /// The same of a node with a set of classes (label_sets.hpp): predicted are those of a logit above 0.
  void add_set(std::span<const float> logits, const std::int32_t* words);
  /// Whichever it is; nothing for a node without label.
  void add_label(std::span<const float> logits, const std::int32_t* words);
  /// The scores over all ranks. Call it once: it takes the predictions. Collective; the same on all ranks.
  Scores finish(const ScoreWork& work);

 private:
  struct Curves;
  double mean_area(const ScoreWork& work);

  ScoreOptions options_;
  Count nodes_ = 0, correct_ = 0;
  double loss_ = 0;
  std::vector<Count> true_positives_, predicted_, labelled_;
  std::unique_ptr<Curves> curves_;  ///< of class 1 of two; of several labels a node, by class
};

}  // namespace strata::train
