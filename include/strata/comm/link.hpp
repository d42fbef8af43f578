// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/machine.hpp"

namespace strata::comm {

/// What messages between machines take, over MPI.
struct LinkFacts {
  double round_seconds = 0;  ///< of an exchange in which every rank tells every other rank a number
  double bytes_per_second =
      0;  ///< that a rank sends to other machines while it receives as many, as all ranks do
};

/// Measures some exchanges and takes the median of the slowest rank: the same on all ranks. Ranks exchange
/// bytes with those that they ask for nodes (Topology::rail). All zero on one machine. Takes about the time
/// of 30 rounds and 10 MiB. Collective over `ranks`, which are all ranks of the topology.
LinkFacts measure_link(const Communicator& ranks, const Topology& topology);

}  // namespace strata::comm
