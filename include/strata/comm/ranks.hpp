// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"

namespace strata::comm {

/// This rank among the others: all ranks of the run, where they are, and those of its machine. What it may
/// take of its host is resources_of(*machine). A view: what it points to outlives every copy.
/// Its calls are not collective, and safe from several threads; those of `world` and `machine` follow
/// Communicator.
struct Ranks {
  const Communicator* world = nullptr;  ///< over all ranks
  const Topology* topology = nullptr;   ///< of the ranks of `world`
  const Machine* machine = nullptr;

  Device device() const { return machine->device(); }
  bool on_several_machines() const { return topology->num_machines() > 1; }
};

/// World ranks that compute on this kind of device. A run may have ranks on GPUs and on the cpu; a decision
/// that leads to a collective must depend on these lists, not on the device of one rank.
std::vector<int> ranks_on(const Topology& topology, Device::Kind kind);

/// Text for people: "rank 3 (host a)", "ranks 0, 1 (host a), 5 (host b)".
std::string names_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& host_of_rank);
std::string names_of_ranks(const std::vector<int>& ranks, const Topology& topology);

}  // namespace strata::comm
