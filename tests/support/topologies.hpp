// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/comm/machine.hpp"

namespace strata::test {

/// How ranks form machines: `machine_of[r]` is the machine of world rank r.
inline comm::Topology topology_of(const std::vector<int>& machine_of) {
  comm::Topology topology;
  topology.virtual_machines = true;
  for (std::size_t rank = 0; rank < machine_of.size(); ++rank) {
    const auto machine = at(machine_of[rank]);
    if (machine >= topology.machines.size()) topology.machines.resize(machine + 1);
    comm::Topology::Rank entry;
    entry.machine = machine_of[rank];
    entry.local_rank = static_cast<int>(topology.machines[machine].size());
    topology.ranks.push_back(entry);
    topology.machines[machine].push_back(static_cast<int>(rank));
  }
  return topology;
}

/// The machine of each rank where rank 0 is one by itself, and the others are a second one together.
inline std::vector<int> uneven_machines(int num_ranks) {
  std::vector<int> machines(at(num_ranks), 1);
  machines[0] = 0;
  return machines;
}

}  // namespace strata::test
