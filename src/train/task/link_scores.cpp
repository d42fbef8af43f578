// SPDX-License-Identifier: Apache-2.0
#include "task/link_scores.hpp"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "task/link_loss.hpp"

namespace strata::train {

Scores no_link_scores() {
  return {.values = {{.name = "mrr", .title = "MRR"},
                     {.name = "hits_10", .title = "Hits@10"},
                     {.name = "roc_auc", .title = "ROC AUC"}},
          .counted = "links"};
}

LinkScoreBoard::LinkScoreBoard(LossChoice loss, std::vector<std::string> relations)
    : loss_(loss), relations_(std::move(relations)), sums_(2 * relations_.size()) {}

void LinkScoreBoard::add_rank(const Group& group, double rank) {
  constexpr double kHits = 10;
  for (Sums* sums : {&sums_of(group), &all_}) {
    ++sums->links;
    sums->hits += rank <= kHits;
    sums->reciprocals.add(static_cast<float>(1 / rank));
  }
}

void LinkScoreBoard::add(const Group& group, float score, std::span<const float> negatives) {
  double rank = 1;
  for (const float negative : negatives) rank += score > negative ? 0 : score == negative ? 0.5 : 1;
  add_rank(group, rank);
  losses_.add(static_cast<float>(loss_of_link(loss_, score, negatives)));
  ++with_loss_;
  pairs_[0].positives.push_back(score);
  pairs_[0].negatives.insert(pairs_[0].negatives.end(), negatives.begin(), negatives.end());
}

Scores LinkScoreBoard::finish(const ScoreWork& work) {
  const comm::Communicator& communicator = *work.communicator;
  sums_.push_back(std::exchange(all_, {}));
  for (Sums& sums : sums_) {
    std::array<std::int64_t, 2> counts{sums.links, sums.hits};
    communicator.all_reduce(std::span<std::int64_t>(counts));
    communicator.all_reduce(sums.reciprocals.words());
    sums.links = counts[0], sums.hits = counts[1];
  }
  all_ = sums_.back();
  sums_.pop_back();
  communicator.all_reduce(losses_.words());
  communicator.all_reduce(std::span(&with_loss_, 1));
  const auto area =
      areas_under_curves(pairs_, {.communicator = work.communicator, .pool = work.pool, .alive = work.alive});
  Scores scores = no_link_scores();
  for (std::size_t i = static_cast<std::size_t>(nn::Side::tail); i < sums_.size(); i += 2)
    scores.nodes += sums_[i].links;
  scores.loss = with_loss_ > 0     ? losses_.value() / static_cast<double>(with_loss_)
                : scores.nodes > 0 ? std::numeric_limits<double>::quiet_NaN()
                                   : 0;
  scores.values[0].value = all_.mrr();
  scores.values[1].value = all_.hits_share();
  scores.values[2].value = area[0];
  return scores;
}

std::string LinkScoreBoard::details() const {
  nlohmann::json groups = nlohmann::json::array();
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Sums& sums = sums_[i];
    if (sums.links == 0) continue;
    groups.push_back({{"relation", relations_[i / 2]},
                      {"negatives", i % 2 == 0 ? "source" : "destination"},
                      {"links", sums.links},
                      {"mrr", sums.mrr()},
                      {"hits_10", sums.hits_share()}});
  }
  if (groups.size() < 2) return {};
  return nlohmann::json{{"type", "links"}, {"groups", std::move(groups)}}.dump();
}

}  // namespace strata::train
