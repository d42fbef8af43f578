// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "graph_regions.hpp"
#include "load/part_loader.hpp"
#include "strata/store/halo.hpp"
#include "strata/store/open_graph.hpp"

namespace strata::store {

/// Neighbor lists of other machines' nodes in memory that the ranks of a machine share. An owner.
struct HaloRegions {
  HostArray<Count> indptr;
  HostIds indices;
  HostArray<EdgeId> edge_ids;  ///< size 0 if not asked for
  HostArray<float> weights;    ///< size 0 if not asked for
  HaloLists lists;             ///< views of the arrays above, and of GraphRegions::original_ids
};

/// Reads the lists of `nodes`, and takes its `indptr`. Collective over the machine; throws on all of its
/// ranks alike. REQUIRES: there are lists, and regions have an alias for each node.
HaloRegions read_halo(const comm::Machine& machine, const GraphRegions& regions, PartLoader& loader,
                      HaloNodes& nodes);

}  // namespace strata::store
