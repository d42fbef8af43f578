// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "strata/nn/decoder.hpp"
#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "task/exact_sum.hpp"
#include "task/roc_auc.hpp"

namespace strata::train {

/// The scores of a model of links by name, all 0.
///
/// mrr: the mean of 1 / rank of a link's score among those of its negatives; ties count half. hits_10: the
/// share of links of rank 10 or better. roc_auc: of all links against all negatives; NaN if only ranks are known. With
/// negatives of both ends, a link counts once for each.
Scores no_link_scores();

/// Scores of links against negatives. The same bits for every number of ranks that compute the same scores.
class LinkScoreBoard {
 public:
  /// `relations`: their names.
  LinkScoreBoard(LossChoice loss, std::vector<std::string> relations);

  /// What links are counted by.
  struct Group {
    Count relation = 0;
    nn::Side side = nn::Side::tail;  ///< the end that negatives stand for
  };
  /// Adds a link: its score and those of its negatives. One that is not a number has the last rank.
  void add(const Group& group, float score, std::span<const float> negatives);
  /// Adds a link of which only the rank is known. There is no mean loss then.
  void add_rank(const Group& group, double rank);
  /// Over all ranks; consumes the scores. Collective.
  Scores finish(const ScoreWork& work);
  /// The scores by relation and side, if there are several, as ScoreBoard::details().
  std::string details() const;

 private:
  struct Sums {
    Count links = 0, hits = 0;
    ExactSum reciprocals;
    double mrr() const { return reciprocals.value() / static_cast<double>(links); }
    double hits_share() const { return static_cast<double>(hits) / static_cast<double>(links); }
  };
  Sums& sums_of(const Group& group) {
    return sums_[2 * at(group.relation) + static_cast<std::size_t>(group.side)];
  }

  LossChoice loss_;
  std::vector<std::string> relations_;
  std::vector<Sums> sums_;  // by relation, of heads and of tails
  Sums all_;
  ExactSum losses_;
  Count with_loss_ = 0;
  std::vector<ClassScores> pairs_ = std::vector<ClassScores>(1);
};

}  // namespace strata::train
