// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "graph_regions.hpp"
#include "load/part_loader.hpp"
#include "strata/store/halo.hpp"
#include "strata/store/open_graph.hpp"

namespace strata::store {

/// Sublists in memory that the ranks of a machine share, as SublistsView has them. An owner.
struct SharedSublists {
  HostArray<Count> first, begins;
  HostArray<std::int32_t> nodes;
  HostArray<RelationId> relations;
};

/// Neighbor lists of other machines' nodes in memory that the ranks of a machine share. An owner.
struct HaloRegions {
  HostArray<Count> indptr;
  HostIds indices;
  HostArray<EdgeId> edge_ids;              ///< size 0 if not asked for
  HostArray<float> weights;                ///< size 0 if not asked for
  std::optional<SharedSublists> sublists;  ///< of several relations
  HaloLists lists;                         ///< views of the arrays above, and of GraphRegions::original_ids
};

/// Where a halo is read from.
struct HaloSource {
  PartLoader& loader;
  const graph::Manifest& manifest;
  ThreadPool& pool;
};

/// Reads the lists of `nodes`, and takes its `indptr`. Collective over the machine; throws on all of its
/// ranks alike. REQUIRES: there are lists, and regions have an alias for each node.
HaloRegions read_halo(const comm::Machine& machine, const GraphRegions& regions, const HaloSource& source,
                      HaloNodes& nodes);

}  // namespace strata::store
