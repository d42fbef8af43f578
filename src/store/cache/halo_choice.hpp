// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "cache/halo_heat.hpp"
#include "cache/read_counts.hpp"
#include "graph_regions.hpp"
#include "load/part_loader.hpp"
#include "strata/comm/ranks.hpp"
#include "strata/placement/keep_plan.hpp"
#include "strata/store/cache_decision.hpp"
#include "strata/store/halo_plan.hpp"
#include "strata/store/load_options.hpp"

namespace strata::store {

/// Bytes of an entry of `indices` with what else there is of its edge.
std::int64_t edge_bytes_of(const RegionSizes& sizes);

/// The most lists that a budget can hold: each takes an entry of indptr, an original id and an entry of the
/// index.
Count most_lists(const RegionSizes& sizes, std::int64_t list_bytes, int num_ranks);

/// Of other machines' nodes, those whose rows and lists save most per byte. There may be a hundred million,
/// so that the ranks of a machine share one copy. An owner of this rank's mappings; null where nothing is
/// kept.
struct HaloNodes {
  std::optional<HostArray<NodeId>> lists;  ///< ascending
  std::optional<HostArray<Count>> indptr;  ///< [lists + 1], of their edges
  std::optional<HostArray<NodeId>>
      rows;  ///< the hottest first, by powers of two of heat; ascending within a power
  std::optional<HostArray<std::uint32_t>> row_occurrences;  ///< of `rows`, in this machine's lists
};

/// Bytes that a sampler takes of a GPU for a copy of these lists and their index.
std::int64_t gpu_bytes_of_lists(const HaloNodes& nodes, const RegionSizes& sizes);

struct HaloTask {
  comm::Ranks ranks;
  const GraphRegions& regions;
  PartLoader& loader;
  ThreadPool& pool;
  const LoadOptions& options;
  HaloBudget budget;
  Count num_edges = 0;                 ///< of the whole graph
  const ReadCounts* counts = nullptr;  ///< of presampled batches; null: heat comes from the structure alone
  /// What else wants the memory of GPUs: bytes per GPU of this machine's own rows and lists.
  std::vector<placement::KeepGroup> own = {};
  /// Most entries of `indices` to look at; of more, only evenly spread pieces.
  Count max_entries = 200'000'000;
};

/// Has the budget room for all rows and lists of other machines? Then no heat is needed.
bool holds_all(const HaloTask& task);

struct HaloChoice {
  HaloNodes nodes;
  /// Of rows, then of lists, on average over all machines; empty without LoadOptions::exchange_costs.
  std::vector<CacheDecision> decisions;
};

/// Ranks rows and lists together by the time that a byte of them saves, and takes what the budget holds; with
/// LoadOptions::exchange_costs, nothing that does not pay. All machines keep rows, or none does, and so with
/// lists. Of nodes that are equally hot and do not all fit, each rank's share is taken in ascending order.
/// The result is the same on all ranks of a machine. Collective over all ranks; throws on all ranks alike.
HaloChoice choose_halo(const HaloTask& task);

}  // namespace strata::store
