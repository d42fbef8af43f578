// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "choosers/choice_rules.hpp"
#include "choosers/list_chooser_cpu.hpp"

namespace strata::sampling {
namespace {

struct LaborSettings {
  bool layer_dependent = false;
};

class LaborLists {
 public:
  LaborLists(const store::GraphView& view, const PickQuery& query, const LaborSettings& settings)
      : view_(view), query_(query), rule_(query.key, query.hop, settings.layer_dependent) {}

  void fetch(const NeighborRange& range) const {
    view_.indices.visit([&](const auto* indices) { fetch_list(indices, range); });
  }

  void take(const NeighborRange& range, std::vector<std::uint32_t>& positions) {
    const auto choices = static_cast<std::uint32_t>(range.choices());
    const std::size_t before = positions.size();
    positions.resize(before + choices);
    std::uint32_t* next = positions.data() + before;
    if (range.choices() <= query_.fanout) {
      std::iota(next, next + choices, 0);
      return;
    }
    const std::uint64_t limit = LaborRule::limit(static_cast<std::uint32_t>(query_.fanout), choices);
    const ExcludedOfList excluded = excluded_of(query_, range);
    view_.indices.visit([&](const auto* indices) {
      view_.original_ids.visit([&](const auto* original_ids) {
        const auto* const list = indices + range.begin;
        // without a branch, because the result cannot be predicted
        const auto choose = [&](auto place_of) {
          for (std::uint32_t p = 0; p < choices; ++p) {
            *next = p;
            next += rule_.of_source(original_ids[list[place_of(p)]]) < limit;
          }
        };
        if (excluded.count == 0)
          choose([](std::uint32_t p) { return p; });
        else
          choose([&](std::uint32_t p) { return excluded.place_of(p); });
      });
    });
    positions.resize(at(next - positions.data()));
  }

 private:
  const store::GraphView& view_;
  const PickQuery& query_;
  LaborRule rule_;
};

}  // namespace

template <typename Id>
std::unique_ptr<PickChooser<Id>> make_labor_chooser(const store::GraphView& view, bool layer_dependent,
                                                    ThreadPool& pool) {
  return std::make_unique<ListChooser<Id, LaborLists, LaborSettings>>(
      view, LaborSettings{.layer_dependent = layer_dependent}, pool);
}
template std::unique_ptr<PickChooser<std::int32_t>> make_labor_chooser(const store::GraphView&, bool,
                                                                       ThreadPool&);
template std::unique_ptr<PickChooser<std::int64_t>> make_labor_chooser(const store::GraphView&, bool,
                                                                       ThreadPool&);

}  // namespace strata::sampling
