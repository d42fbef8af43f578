// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "graph_regions.hpp"
#include "load/part_loader.hpp"
#include "strata/store/halo.hpp"

namespace strata::store {

/// Neighbor lists of other machines' nodes in memory that the ranks of a machine share. An owner.
struct HaloRegions {
  HostArray<Count> indptr;
  HostIds indices;
  HostArray<EdgeId> edge_ids;  ///< size 0 if not asked for
  HostArray<float> weights;    ///< likewise
  HaloLists lists;             ///< views of the others, and of GraphRegions::original_ids
};

/// What a machine may keep of other machines' nodes.
struct HaloBudget {
  std::int64_t list_bytes = 0, row_bytes = 0;  ///< for neighbor lists, for feature rows; 0: none
};

/// Most lists that a budget can hold: each takes an entry of indptr, an original id and its place in the
/// index.
Count most_lists(const RegionSizes& sizes, std::int64_t list_bytes, int num_ranks);

/// The nodes of other machines that occur most often in this machine's lists.
struct HaloNodes {
  std::vector<NodeId> lists;   ///< ascending
  std::vector<Count> degrees;  ///< of `lists`
  std::vector<NodeId> rows;    ///< the hottest first, in steps of a factor of two; ascending within
  std::vector<std::uint32_t> row_occurrences;  ///< of `rows`
};

struct HaloTask {
  const comm::Machine& machine;
  const GraphRegions& regions;
  PartLoader& loader;
  ThreadPool& pool;
  HaloBudget budget;
  std::int64_t feature_row_bytes = 0;
  Count max_entries = 200'000'000;  ///< of `indices` that are looked at; of longer ones evenly spread pieces
};

/// Chooses them. Nodes that occur equally often and do not all fit are taken in ascending order, by rank's
/// share of them. The same on all ranks. Collective over the machine; throws on all of its ranks alike.
HaloNodes choose_halo(const HaloTask& task);

/// Reads the lists of `nodes`. REQUIRES: regions have an alias for each. Collective likewise.
HaloRegions read_halo(const HaloTask& task, const HaloNodes& nodes);

}  // namespace strata::store
