// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/machine.hpp"

namespace strata::comm {

/// The cost of messages between machines.
struct LinkFacts {
  double round_seconds = 0;  ///< of an exchange of a number: through host memory with all ranks, from GPU to
                             ///< GPU with those that a rank asks for nodes
  /// Bytes that a rank sends to other machines while it receives as many, as all ranks do.
  double bytes_per_second = 0;
};

/// Measures some exchanges and takes the median of the slowest rank: the same on all ranks. Ranks exchange
/// bytes with those that they ask for nodes (Topology::rail). All zero on one machine. Takes about the time
/// of 30 rounds and 10 MiB. Collective over `ranks`, which are all ranks of the topology.
LinkFacts measure_link(const Communicator& ranks, const Topology& topology);
/// The same for messages from device to device, of exchanges that follow each other without the host. Takes
/// about the time of 120 rounds and 200 MiB. REQUIRES: no other launches with NCCL are under way.
LinkFacts measure_link(DeviceExchange& wire, const Communicator& ranks, const Topology& topology,
                       Device device);

}  // namespace strata::comm
