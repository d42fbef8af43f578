// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/store/halo.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

/// Which rank of each machine serves this rank's requests for the machine's nodes.
struct Servers {
  std::span<const NodeId> machine_offsets;  ///< [machines + 1]
  int machine = 0;                          ///< this rank's own
  std::vector<int> rank_of_machine;         ///< world rank, rail-aligned
  int num_ranks = 0;                        ///< of the world
  const NodeIndex* halo = nullptr;          ///< other machines' nodes that this machine keeps a copy of

  static Servers of(const comm::Topology& topology, std::span<const NodeId> machine_offsets, int world_rank);
  NodeId end_of_machine() const { return machine_offsets[static_cast<std::size_t>(machine) + 1]; }
};

/// Divides nodes by who has them, on the host: this machine, its halo, or a rank of another machine. GPUs do
/// it by comm::IdSegments.
///
/// Machines {0..9}, {10..19}; ids {12, 3, -1, 15, 11} on machine 0, whose halo keeps node 15 at position 2:
/// asked() is {0, 4}, both of the rank that serves machine 1, and kept() is {{3, 2}}.
class OwnerSplit {
 public:
  /// -1 names no node. Throws Error for what is neither -1 nor a node.
  void run(std::span<const NodeId> nodes, const Servers& servers);

  /// Indices of the nodes to ask other ranks for, by rank, and of each rank in the order given.
  std::span<const std::int32_t> asked() const { return asked_; }
  std::span<const Count> counts() const { return counts_; }  ///< [ranks] of asked()
  struct Kept {
    std::int32_t index = 0;  ///< of the node
    Count position = 0;      ///< in the halo
  };
  std::span<const Kept> kept() const { return kept_; }

 private:
  std::vector<std::int32_t> rank_of_node_, asked_;
  std::vector<Count> counts_, next_;
  std::vector<Kept> kept_;
};

}  // namespace strata::store
