// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>

#include "placing/read_counts.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/comm/machine.hpp"
#include "strata/plan/graph_placement.hpp"
#include "strata/store/open_graph.hpp"

namespace strata::batches {

/// What plan_placement() may spend, and what is known already.
struct PlacementTask {
  std::int64_t gpu_bytes = 0;  ///< per GPU
  std::int64_t host_bytes =
      std::numeric_limits<std::int64_t>::max();  ///< for feature rows; the same on all ranks
  const FirstBatches* batches = nullptr;         ///< to sample where heat matters; null: none
  /// What batches of this machine read, and of other machines here; null: not counted yet.
  const ReadCounts* counts = nullptr;
  const ServedReads* served = nullptr;
};

/// What batches are expected to read of a machine's graph.
struct GraphHeat {
  plan::ListRanking lists;       ///< says which lists are copied first
  plan::BatchAccesses accesses;  ///< the visits to lists in the order of `lists`
};

/// The heat that the structure shows. The same on all ranks. Collective over the machine.
GraphHeat heat_of_structure(const comm::Machine& machine, const store::OpenGraph& graph,
                            const plan::BatchShape& batch);

/// Plans with the heat that the structure shows, or presampled batches where the GPUs cannot each hold all,
/// and the rates measured now. The same on all ranks. Collective over the machine; throws on all of its ranks
/// alike: InputError for a placement asked for that cannot be.
plan::GraphPlacement plan_placement(const comm::Machine& machine, const store::OpenGraph& graph,
                                    const store::LoadOptions& options, const PlacementTask& task);

}  // namespace strata::batches
