// SPDX-License-Identifier: Apache-2.0
#include "choosers/choice_rules.hpp"
#include "choosers/list_chooser_cpu.hpp"

namespace strata::sampling {
namespace {

/// Each draw is a point below the sum of the list's whole weights, and selects the edge that it falls on.
class WeightedReplacingRule {
 public:
  WeightedReplacingRule(const store::GraphView& view, const PickQuery& query, NoSettings)
      : weights_(view.weights), of_list_(view.weights, query), query_(query) {}

  void fetch(const NeighborRange& range) const { fetch_list(weights_, range); }

  void take(const NeighborRange& range, std::vector<std::uint32_t>& positions) {
    const float *const first = of_list_.of(range), *const last = first + range.choices();
    const float largest = *std::max_element(first, last);
    if (!(largest > 0)) return;
    const WholeWeights whole(largest, static_cast<std::uint32_t>(range.choices()));
    ends_.clear();
    std::uint64_t sum = 0;
    for (const float* weight = first; weight != last; ++weight) ends_.push_back(sum += whole(*weight));
    const std::uint64_t key = choice_key(query_, range);
    for (std::uint64_t pick = 0; pick < static_cast<std::uint64_t>(query_.fanout); ++pick) {
      const auto edge = std::ranges::upper_bound(ends_, below(keyed_word(key, pick), sum));
      positions.push_back(static_cast<std::uint32_t>(edge - ends_.begin()));
    }
  }

 private:
  const float* weights_;
  ListWeights of_list_;
  const PickQuery& query_;
  std::vector<std::uint64_t> ends_;  // sums of the whole weights up to each edge
};

}  // namespace

template <typename Id>
std::unique_ptr<PickChooser<Id>> make_weighted_replacing_chooser(const store::GraphView& view,
                                                                 ThreadPool& pool) {
  return std::make_unique<ListChooser<Id, WeightedReplacingRule, NoSettings>>(view, NoSettings{}, pool);
}
template std::unique_ptr<PickChooser<std::int32_t>> make_weighted_replacing_chooser(const store::GraphView&,
                                                                                    ThreadPool&);
template std::unique_ptr<PickChooser<std::int64_t>> make_weighted_replacing_chooser(const store::GraphView&,
                                                                                    ThreadPool&);

}  // namespace strata::sampling
