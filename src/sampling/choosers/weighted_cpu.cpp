// SPDX-License-Identifier: Apache-2.0
#include "choosers/choice_rules.hpp"
#include "choosers/list_chooser_cpu.hpp"

namespace strata::sampling {
namespace {

/// Only roundings can make v / weight larger than the quotient of an arrival, because -ln(1 - v) >= v; this
/// factor bounds them.
constexpr double kRoundings = 1 + 2e-6;

/// The first `fanout` edges that arrive; see arrival(). A heap holds the first ones so far. An edge whose v /
/// weight is already later than the last of the heap needs no logarithm, which is true of nearly all edges of
/// long lists.
class WeightedRule {
 public:
  WeightedRule(const store::GraphView& view, const PickQuery& query, NoSettings)
      : weights_(view.weights), of_list_(view.weights, query), query_(query), fanout_(at(query.fanout)) {}

  void fetch(const NeighborRange& range) const { fetch_list(weights_, range); }

  void take(const NeighborRange& range, std::vector<std::uint32_t>& positions) {
    const std::size_t before = positions.size();
    const auto choices = static_cast<std::uint32_t>(range.choices());
    const float* const weights = of_list_.of(range);
    if (range.choices() <= query_.fanout) {
      for (std::uint32_t p = 0; p < choices; ++p)
        if (weights[p] > 0) positions.push_back(p);
      return;
    }
    race(weights, choices, choice_key(query_, range));
    for (const std::uint64_t arrived : arrivals_) positions.push_back(static_cast<std::uint32_t>(arrived));
    std::sort(positions.begin() + static_cast<std::ptrdiff_t>(before), positions.end());
  }

 private:
  void race(const float* weights, std::uint32_t degree, std::uint64_t key) {
    arrivals_.clear();
    double last = 0;  // quotient of the heap's last, once it is full
    for (std::uint32_t p = 0; p < degree; ++p) {
      if (!(weights[p] > 0)) continue;
      const std::uint64_t word = keyed_word(key, p);
      const bool full = arrivals_.size() == fanout_;
      if (full && static_cast<double>(word) * 0x1.0p-64 > last * static_cast<double>(weights[p])) continue;
      const std::uint64_t here = arrival(word, weights[p], p);
      if (full) {
        if (here > arrivals_.front()) continue;
        std::ranges::pop_heap(arrivals_);
        arrivals_.back() = here;
      } else {
        arrivals_.push_back(here);
      }
      std::ranges::push_heap(arrivals_);
      if (arrivals_.size() == fanout_) last = quotient_of(arrivals_.front()) * kRoundings;
    }
  }

  const float* weights_;
  ListWeights of_list_;
  const PickQuery& query_;
  std::size_t fanout_;
  std::vector<std::uint64_t> arrivals_;  // a heap with the last arrival in front
};

}  // namespace

template <typename Id>
std::unique_ptr<PickChooser<Id>> make_weighted_chooser(const store::GraphView& view, ThreadPool& pool) {
  return std::make_unique<ListChooser<Id, WeightedRule, NoSettings>>(view, NoSettings{}, pool);
}
template std::unique_ptr<PickChooser<std::int32_t>> make_weighted_chooser(const store::GraphView&,
                                                                          ThreadPool&);
template std::unique_ptr<PickChooser<std::int64_t>> make_weighted_chooser(const store::GraphView&,
                                                                          ThreadPool&);

}  // namespace strata::sampling
