// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "task/exact_sum.hpp"
#include "task/roc_auc.hpp"

namespace strata::train {

/// The scores of a model of links by name, all 0.
///
/// mrr: the mean of 1 / rank of a link's score among those of its negatives; ties count half. hits_10: the
/// share of links of rank 10 or better. roc_auc: of all links against all negatives.
Scores no_link_scores();

/// Scores of links against negatives. The same bits for every number of ranks that compute the same scores.
class LinkScoreBoard {
 public:
  explicit LinkScoreBoard(LossKind loss) : loss_(loss) {}
  /// Adds a link: its score and those of its negatives. One that is not a number has the last rank.
  void add(float score, std::span<const float> negatives);
  /// Over all ranks; consumes the scores. Collective.
  Scores finish(const ScoreWork& work);

 private:
  LossKind loss_;
  Count links_ = 0, hits_ = 0;
  ExactSum losses_, reciprocals_;
  std::vector<ClassScores> pairs_ = std::vector<ClassScores>(1);
};

}  // namespace strata::train
