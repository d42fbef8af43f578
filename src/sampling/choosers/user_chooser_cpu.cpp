// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "choosers/pick_chooser.hpp"
#include "strata/util/error.hpp"

namespace strata::sampling {
namespace {

template <typename Id>
class UserChooser final : public PickChooser<Id> {
 public:
  UserChooser(const store::GraphView& view, NeighborChooser& chooser, bool edge_ids)
      : view_(view), chooser_(chooser), edge_ids_(edge_ids) {}

  void measure(const PickQuery& query, PickPlan& plan, Count* counts) override {
    chooser_.choose(query, plan.chosen);
    check(query, plan.chosen);
    std::ranges::copy(plan.chosen.counts, counts);
  }

  void choose(const PickQuery& query, const PickPlan& plan, const PickOutput<Id>& out) override {
    Count next = 0;
    for (std::size_t i = 0; i < query.nodes.size(); ++i) {
      for (Count j = 0; j < plan.chosen.counts[i]; ++j, ++next) {
        const Count pick = out.offsets[i] + j;
        out.neighbors[pick] = static_cast<Id>(plan.chosen.neighbors[at(next)]);
        if (out.edge_ids != nullptr) out.edge_ids[pick] = plan.chosen.edge_ids[at(next)];
      }
    }
  }

 private:
  void check(const PickQuery& query, const ChosenNeighbors& chosen) const {
    const auto& counts = chosen.counts;
    const bool fits =
        counts.size() == query.nodes.size() &&
        std::ranges::all_of(counts, [](Count count) { return count >= 0; }) &&
        std::accumulate(counts.begin(), counts.end(), Count{0}) == std::ssize(chosen.neighbors) &&
        (!edge_ids_ || chosen.edge_ids.size() == chosen.neighbors.size());
    if (!fits)
      throw Error(fmt::format(
          "a NeighborChooser gave {} counts, {} neighbors and {} edge ids for {} nodes, which do not fit",
          counts.size(), chosen.neighbors.size(), chosen.edge_ids.size(), query.nodes.size()));
    const auto bad = std::ranges::find_if(
        chosen.neighbors, [this](NodeId node) { return node < 0 || node >= view_.num_nodes; });
    if (bad != chosen.neighbors.end())
      throw Error(
          fmt::format("a NeighborChooser gave node {}, but nodes are 0 to {}", *bad, view_.num_nodes - 1));
    for (std::size_t i = 0; i < counts.size(); ++i)
      if (counts[i] > 0 && !view_.owns(query.nodes[i]))
        throw Error(fmt::format("a NeighborChooser gave node {} neighbors, which another machine owns",
                                query.nodes[i]),
                    "Give it none: its owner is asked.");
  }

  const store::GraphView& view_;
  NeighborChooser& chooser_;
  bool edge_ids_;
};

}  // namespace

template <typename Id>
std::unique_ptr<PickChooser<Id>> make_user_chooser(const store::GraphView& view, NeighborChooser& chooser,
                                                   bool edge_ids) {
  return std::make_unique<UserChooser<Id>>(view, chooser, edge_ids);
}
template std::unique_ptr<PickChooser<std::int32_t>> make_user_chooser(const store::GraphView&,
                                                                      NeighborChooser&, bool);
template std::unique_ptr<PickChooser<std::int64_t>> make_user_chooser(const store::GraphView&,
                                                                      NeighborChooser&, bool);

}  // namespace strata::sampling
