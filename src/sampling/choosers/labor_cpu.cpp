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
      : view_(view), rule_(query.key, query.hop, settings.layer_dependent), fanout_(query.fanout) {}

  void fetch(const NeighborRange& range) const {
    view_.indices.visit([&](const auto* indices) { fetch_list(indices, range); });
  }

  void take(const NeighborRange& range, std::vector<std::uint32_t>& positions) {
    const auto degree = static_cast<std::uint32_t>(range.degree);
    const std::size_t before = positions.size();
    positions.resize(before + degree);
    std::uint32_t* next = positions.data() + before;
    if (range.degree <= fanout_) {
      std::iota(next, next + degree, 0);
      return;
    }
    const std::uint64_t limit = LaborRule::limit(static_cast<std::uint32_t>(fanout_), degree);
    view_.indices.visit([&](const auto* indices) {
      view_.original_ids.visit([&](const auto* original_ids) {
        const auto* const list = indices + range.begin;
        // without a branch, because the result cannot be predicted
        for (std::uint32_t p = 0; p < degree; ++p) {
          *next = p;
          next += rule_.of_source(original_ids[list[p]]) < limit;
        }
      });
    });
    positions.resize(at(next - positions.data()));
  }

 private:
  const store::GraphView& view_;
  LaborRule rule_;
  int fanout_;
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
