#include "choice_rules.hpp"
#include "list_chooser_cpu.hpp"

namespace strata::sampling {
namespace {

/// The `fanout` edges that arrive first; see arrival().
class WeightedRule {
 public:
  WeightedRule(const store::GraphView& view, const SlotQuery& query, NoSettings)
      : weights_(view.weights), query_(query), fanout_(static_cast<std::size_t>(query.fanout)) {}

  void fetch(const NeighborRange& range) const { fetch_list(weights_, range); }

  void take(const NeighborRange& range, std::vector<std::uint32_t>& positions) {
    const std::size_t before = positions.size();
    const float* const weights = weights_ + range.begin;
    for (std::uint32_t p = 0; p < static_cast<std::uint32_t>(range.degree); ++p)
      if (weights[p] > 0) positions.push_back(p);
    if (positions.size() - before <= fanout_) return;
    const std::uint64_t key = choice_key(query_, range);
    arrivals_.clear();
    for (std::size_t i = before; i < positions.size(); ++i)
      arrivals_.push_back(arrival(keyed_word(key, positions[i]), weights[positions[i]], positions[i]));
    const auto last = arrivals_.begin() + static_cast<std::ptrdiff_t>(fanout_);
    std::nth_element(arrivals_.begin(), last, arrivals_.end());
    positions.resize(before);
    for (auto first = arrivals_.begin(); first != last; ++first)
      positions.push_back(static_cast<std::uint32_t>(*first));
    std::sort(positions.begin() + static_cast<std::ptrdiff_t>(before), positions.end());
  }

 private:
  const float* weights_;
  const SlotQuery& query_;
  std::size_t fanout_;
  std::vector<std::uint64_t> arrivals_;
};

}  // namespace

template <typename Id>
std::unique_ptr<SlotChooser<Id>> make_weighted_chooser(const store::GraphView& view, ThreadPool& pool) {
  return std::make_unique<ListChooser<Id, WeightedRule, NoSettings>>(view, NoSettings{}, pool);
}
template std::unique_ptr<SlotChooser<std::int32_t>> make_weighted_chooser(const store::GraphView&,
                                                                          ThreadPool&);
template std::unique_ptr<SlotChooser<std::int64_t>> make_weighted_chooser(const store::GraphView&,
                                                                          ThreadPool&);

}  // namespace strata::sampling
