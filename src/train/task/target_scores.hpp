// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "task/exact_sum.hpp"

namespace strata::train {

/// The scores of a regression by name, all 0.
///
/// rmse and mae: over all targets that are not missing, in their own units. r2: the mean over the columns of 1
/// less the squared errors divided by those of the column's mean; columns that do not vary are left out.
Scores no_target_scores();

/// Scores of numbers that were predicted in the scale that a model learns. The same bits for every number of
/// ranks that predict the same.
class TargetScoreBoard final : public ScoreBoard {
 public:
  TargetScoreBoard(LossChoice loss, std::vector<graph::TargetScale> scales);
  void add(std::span<const float> outputs, const std::int32_t* target) override;
  Scores finish(const ScoreWork& work) override;
  /// The scores of each column, if there are several.
  std::string details() const override { return details_; }

 private:
  /// Sums over the nodes that have a target of a column, scaled.
  struct Column {
    Count nodes = 0;
    ExactSum targets, squares, squared_errors, absolute_errors;
    double r2() const;
  };
  void add_up(const comm::Communicator& communicator);
  std::string describe_columns() const;

  LossChoice loss_;
  std::vector<graph::TargetScale> scales_;
  std::vector<Column> columns_;
  Count nodes_ = 0;
  ExactSum losses_;
  std::string details_;
};

}  // namespace strata::train
