// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "judge.hpp"
#include "strata/comm/communicator.hpp"

namespace strata::doctor {

/// The time that measurements may take.
struct Effort {
  int pings = 20;
  double transfer_seconds = 0.04;  ///< messages grow until one takes so long
  std::int64_t most_bytes = std::int64_t{16} << 20;

  static Effort of(bool quick, int hosts);
};

/// Measures latency and bandwidth of every pair of hosts, each way, with as many pairs at once as there are
/// hosts for; then all hosts at once. `leaders` has one rank per host, in the order of the hosts. The same on
/// all of them. Collective over the leaders.
NetworkFacts measure_network(const comm::Communicator& leaders, const Effort& effort);

/// Measures the offsets of hosts' clocks from the first's. The same on all leaders; collective over them.
std::vector<ClockOffset> compare_clocks(const comm::Communicator& leaders, const Effort& effort);

/// Pairs of `hosts` hosts in rounds: in each round a host has one partner at most, and all pairs come once.
std::vector<std::vector<std::pair<int, int>>> rounds_of_pairs(int hosts);

}  // namespace strata::doctor
