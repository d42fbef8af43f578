#pragma once
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/util/types.hpp"

namespace strata::feature {

/// Which rank serves this one's requests for the nodes of each machine.
struct Servers {
  std::span<const NodeId> machine_offsets;  ///< [machines + 1]
  int machine = 0;                          ///< this rank's own
  std::vector<int> rank_of_machine;         ///< world rank, rail-aligned
  int num_ranks = 0;                        ///< of the world

  static Servers of(const comm::Topology& topology, std::span<const NodeId> machine_offsets, int world_rank);
};

/// The ids of one fetch, split: what this machine has, and what to ask of which rank.
///
/// Machines {0..9}, {10..19}; ids {12, 3, -1, 15} on machine 0 give local_ids {-1, 3, -1, -1}, and for the
/// rank that serves machine 1 remote_ids {12, 15} with positions {0, 3}.
struct Requests {
  std::vector<NodeId> remote_ids;    ///< in order of the serving rank, then of position
  std::vector<Count> first_of_rank;  ///< [num_ranks + 1] into remote_ids

  Count count_for(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return first_of_rank[r + 1] - first_of_rank[r];
  }
  Count largest() const;  ///< count of the rank that is asked most
};

struct SplitTarget {
  NodeId* local_ids = nullptr;        ///< [ids] out
  std::int32_t* positions = nullptr;  ///< [ids] out; the first remote_ids.size() are set
};

/// Throws Error for an id that is neither -1 nor a node of the graph, and for 2^31 ids or more.
Requests split_requests(std::span<const NodeId> ids, const Servers& servers, const SplitTarget& target);

}  // namespace strata::feature
