// SPDX-License-Identifier: Apache-2.0
#include "placement/graph_heat.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "strata/util/format.hpp"
#include "strata/util/log.hpp"

namespace strata::store {
namespace {

/// Ranks the lists of the task's parts, with the visits to them if they are known.
ListRanking rank_lists(const comm::Machine& machine, const GraphRegions& regions, const PlacementTask& task,
                       const BatchAccesses& accesses) {
  const std::vector<Count>&parts = task.list_parts, &known = task.features.part_rows;
  const bool all_known =
      parts.size() <= known.size() && std::equal(parts.begin(), parts.end(), known.begin());
  return {machine, regions.indptr.data(), parts,
          all_known ? std::span(accesses.visits_per_list) : std::span<const double>()};
}

/// `part_rows` are those of the machine's parts, and of the halo behind them.
std::vector<NodeId> part_offsets_of(const GraphView& view, std::span<const Count> part_rows) {
  std::vector<NodeId> offsets{view.first_node};
  const NodeId end = view.first_node + view.num_local;
  for (std::size_t part = 0; offsets.back() < end; ++part)
    offsets.push_back(offsets.back() + part_rows[part]);
  return offsets;
}

std::optional<AccessCounter::Mean> count_accesses(const comm::Machine& machine, const GraphRegions& regions,
                                                  const PlacementTask& task) {
  const GraphView view = regions.view();
  const std::vector<NodeId> part_offsets = part_offsets_of(view, task.features.part_rows);
  AccessCounter counter(view, task.features.part_rows, task.halo);
  machine.together([&] {
    task.options.presampling.run(
        {regions.lists_view(), regions.train.span(), part_offsets, regions.train_clusters.span()},
        [&](const BatchReads& batch) { counter.add(batch); });
  });
  return counter.mean(machine);
}

}  // namespace

GraphHeat heat_of_structure(const comm::Machine& machine, const GraphRegions& regions,
                            const PlacementTask& task) {
  const NodeHeat heat = count_heat(machine, {.graph = regions.view(),
                                             .part_rows = task.features.part_rows,
                                             .fanouts = task.options.batch.fanouts,
                                             .halo_occurrences = task.features.halo_occurrences});
  GraphHeat known{.lists = {}, .accesses = expect_accesses(heat, task.options.batch)};
  known.lists = rank_lists(machine, regions, task, known.accesses);
  known.accesses.list_visits = known.lists.curves(known.accesses.lists);
  return known;
}

GraphHeat counted_heat(const comm::Machine& machine, const PlacementTask& task, GraphHeat heat) {
  auto counted = mean_accesses(machine, *task.counts, task.served, {task.features.part_rows, task.halo});
  if (!counted) return heat;
  heat.accesses = std::move(counted->accesses);
  heat.accesses.list_visits = heat.lists.curves(heat.accesses.lists);
  heat.presampled_batches = counted->batches;
  return heat;
}

GraphHeat presample(const comm::Machine& machine, const GraphRegions& regions, const PlacementTask& task,
                    GraphHeat heat) {
  const auto start = std::chrono::steady_clock::now();
  auto counted = count_accesses(machine, regions, task);
  if (!counted) return heat;
  if (machine.rank() == 0 && machine.index() == 0) {
    spdlog::info(
        "accesses of {} batches counted in {}", format_count(counted->batches),
        format_seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
  }
  heat.accesses = std::move(counted->accesses);
  heat.accesses.list_visits = heat.lists.curves(heat.accesses.lists);
  heat.presampled_batches = counted->batches;
  return heat;
}

}  // namespace strata::store
