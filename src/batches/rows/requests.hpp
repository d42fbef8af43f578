// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/batches/fetcher.hpp"
#include "strata/store/halo.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

/// The ids of one fetch, split into those that this machine has and those to ask of each rank.
///
/// Machines {0..9}, {10..19}; ids {12, 3, -1, 15} on machine 0 give local_ids {-1, 3, -1, -1}, and for the
/// rank that serves machine 1 remote_ids {12, 15} with positions {0, 3}. If the halo keeps node 15 at
/// position 2, its local id is 10 + 2, because the halo's rows follow those of the machine.
struct Requests {
  std::vector<NodeId> remote_ids;    ///< in order of the serving rank, then ascending
  std::vector<Count> first_of_rank;  ///< [num_ranks + 1] into remote_ids

  Count count_for(int rank) const {
    const auto r = at(rank);
    return first_of_rank[r + 1] - first_of_rank[r];
  }
  Count cached = 0;       ///< ids of other machines that the halo keeps here
  Count largest() const;  ///< count of the rank that is asked for most
};

struct SplitTarget {
  NodeId* local_ids = nullptr;        ///< [ids] out
  std::int32_t* positions = nullptr;  ///< [ids] out; the first remote_ids.size() are set
};

/// Splits ids in host memory. Where their order is known it looks only at those of other machines, one after
/// the other. Throws Error for an id that is neither -1 nor a node of the graph, and for 2^31 ids or more.
Requests split_requests(const FetchedIds& wanted, const store::Servers& servers, const SplitTarget& target);

}  // namespace strata::batches
