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
  HostArray<float> weights;    ///< size 0 if not asked for
  HaloLists lists;             ///< views of the arrays above, and of GraphRegions::original_ids
};

/// What a machine may keep of other machines' nodes.
struct HaloBudget {
  std::int64_t list_bytes = 0, row_bytes = 0;  ///< for neighbor lists, for feature rows; 0: none
};

/// The most lists that a budget can hold: each takes an entry of indptr, an original id and an entry of the
/// index.
Count most_lists(const RegionSizes& sizes, std::int64_t list_bytes, int num_ranks);

/// The nodes of other machines that occur most often in this machine's lists; all nodes of other machines if
/// they fit, because batches also reach those that occur only in other machines' lists.
struct HaloNodes {
  std::vector<NodeId> lists;   ///< ascending
  std::vector<Count> degrees;  ///< of `lists`
  std::vector<NodeId> rows;    ///< the hottest first, by powers of two of heat; ascending within a power
  std::vector<std::uint32_t> row_occurrences;  ///< of `rows`
};

/// Bytes that a sampler takes of a GPU for a copy of these lists and their index.
std::int64_t gpu_bytes_of_lists(const HaloNodes& nodes, const RegionSizes& sizes);

struct HaloTask {
  const comm::Machine& machine;
  const GraphRegions& regions;
  PartLoader& loader;
  ThreadPool& pool;
  HaloBudget budget;
  std::int64_t feature_row_bytes = 0;
  /// Most entries of `indices` to look at; of more, only evenly spread pieces.
  Count max_entries = 200'000'000;
};

/// Chooses the nodes. Among nodes that occur equally often and do not all fit, each rank's share is taken in
/// ascending order. The result is the same on all ranks. Collective over the machine; throws on all of its
/// ranks alike.
HaloNodes choose_halo(const HaloTask& task);

/// Reads the lists of `nodes`. Collective over the machine; throws on all of its ranks alike. REQUIRES:
/// regions have an alias for each node.
HaloRegions read_halo(const HaloTask& task, const HaloNodes& nodes);

}  // namespace strata::store
