// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/device_exchange.hpp"

namespace strata::comm {

SegmentPeers SegmentPeers::of(const Topology& topology, std::span<const NodeId> machine_offsets,
                              int world_rank) {
  SegmentPeers peers{.machine = topology.ranks[at(world_rank)].machine,
                     .machine_offsets = machine_offsets,
                     .servers = {},
                     .clients = {}};
  for (int machine = 0; machine < topology.num_machines(); ++machine)
    if (machine != peers.machine) peers.servers.push_back(topology.rail(world_rank, machine));
  for (int other = 0; other < static_cast<int>(topology.ranks.size()); ++other) {
    if (topology.ranks[at(other)].machine != peers.machine &&
        topology.rail(other, peers.machine) == world_rank)
      peers.clients.push_back(other);
  }
  return peers;
}

}  // namespace strata::comm
