// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "cache/list_ranking.hpp"
#include "graph_regions.hpp"
#include "heat.hpp"
#include "placement/placement_task.hpp"
#include "strata/comm/machine.hpp"

namespace strata::store {

/// What batches are expected to read of a machine's graph.
struct GraphHeat {
  ListRanking lists;             ///< says which lists are copied first
  BatchAccesses accesses;        ///< the visits to lists in the order of `lists`
  Count presampled_batches = 0;  ///< in which the accesses were counted; 0: from the structure
};

/// The heat that the structure shows. The same on all ranks. Collective over the machine.
GraphHeat heat_of_structure(const comm::Machine& machine, const GraphRegions& regions,
                            const PlacementTask& task);

/// The same lists with the accesses of presampled batches; unchanged if those read nothing of this machine.
/// REQUIRES: task.options.presampling.run. Collective over the machine; throws on all of its ranks alike.
GraphHeat presample(const comm::Machine& machine, const GraphRegions& regions, const PlacementTask& task,
                    GraphHeat heat);

/// The same with what was counted on several machines, including what others read here. REQUIRES:
/// task.counts. Collective over the machine.
GraphHeat counted_heat(const comm::Machine& machine, const PlacementTask& task, GraphHeat heat);

}  // namespace strata::store
