// SPDX-License-Identifier: Apache-2.0
#include "task/link_scores.hpp"

#include <array>
#include <cmath>

#include "task/link_loss.hpp"

namespace strata::train {

Scores no_link_scores() {
  return {.values = {{.name = "mrr", .title = "MRR"},
                     {.name = "hits_10", .title = "Hits@10"},
                     {.name = "roc_auc", .title = "ROC AUC"}}};
}

void LinkScoreBoard::add(float score, std::span<const float> negatives) {
  constexpr double kHits = 10;
  double rank = 1;
  for (const float negative : negatives) rank += score > negative ? 0 : score == negative ? 0.5 : 1;
  ++links_;
  hits_ += rank <= kHits;
  losses_.add(static_cast<float>(loss_of_link(loss_, score, negatives)));
  reciprocals_.add(static_cast<float>(1 / rank));
  pairs_[0].positives.push_back(score);
  pairs_[0].negatives.insert(pairs_[0].negatives.end(), negatives.begin(), negatives.end());
}

Scores LinkScoreBoard::finish(const ScoreWork& work) {
  std::array<std::int64_t, 2> counts{links_, hits_};
  work.communicator->all_reduce(std::span<std::int64_t>(counts));
  work.communicator->all_reduce(losses_.words());
  work.communicator->all_reduce(reciprocals_.words());
  const auto area =
      areas_under_curves(pairs_, {.communicator = work.communicator, .pool = work.pool, .alive = work.alive});
  Scores scores = no_link_scores();
  scores.nodes = counts[0];
  const auto links = static_cast<double>(counts[0]);
  scores.loss = counts[0] == 0 ? 0 : losses_.value() / links;
  scores.values[0].value = reciprocals_.value() / links;
  scores.values[1].value = static_cast<double>(counts[1]) / links;
  scores.values[2].value = area[0];
  return scores;
}

}  // namespace strata::train
