#pragma once
#include <span>
#include <string>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// Scores of one split over all ranks.
struct Scores {
  Count nodes = 0;
  double loss = 0;  ///< mean cross entropy
  double accuracy = 0;
  double macro_f1 = 0;  ///< mean over the classes that occur as a label or as a prediction, as scikit-learn
  double roc_auc = 0;   ///< of class 1, two classes only; NaN elsewhere and where one class is missing

  double by_name(const std::string& metric) const;  ///< accuracy, macro_f1, roc_auc; throws InputError

  /// Whether the model with these validation scores replaces the one with `best`: its metric is higher, where
  /// NaN loses to every number and beats nothing. Without validation nodes the latest model is the best.
  bool beats(const Scores& best, const std::string& metric) const;
};

/// Collects predictions of one split on this rank; `finish` adds up all ranks.
class ScoreBoard {
 public:
  explicit ScoreBoard(Count num_classes);
  /// logits [num_classes] of a node whose label is `label` >= 0.
  void add(std::span<const float> logits, std::int32_t label);
  Scores finish(const comm::Communicator& communicator) const;  ///< collective; the same result on all ranks

 private:
  double area_under_curve(const comm::Communicator& communicator) const;

  Count num_classes_;
  Count nodes_ = 0, correct_ = 0;
  double loss_ = 0;
  std::vector<Count> true_positives_, predicted_, labelled_;
  struct Scored {
    float score;
    std::int32_t positive;
  };
  std::vector<Scored> scored_;  ///< two classes only
};

}  // namespace strata::train
