// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "graph_regions.hpp"
#include "placement/graph_placement.hpp"
#include "placement/placement_task.hpp"
#include "strata/comm/machine.hpp"

namespace strata::store {

/// What every placement needs of the host's memory: all structure, and the features that `gpu_bytes` of all
/// GPUs together cannot hold.
std::int64_t least_host_bytes(const RegionSizes& sizes, const FeatureShape& features, std::int64_t gpu_bytes);

/// Plans with the heat that the structure shows, or presampled batches where the GPUs cannot each hold all,
/// and the rates measured now. The same on all ranks. Collective over the machine; throws on all of its ranks
/// alike: InputError for a placement asked for that cannot be.
GraphPlacement plan_placement(const comm::Machine& machine, const GraphRegions& regions,
                              const PlacementTask& task);

}  // namespace strata::store
