// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"

namespace strata::comm {

/// What one rank knows about its own place.
struct RankFacts {
  std::string host;               ///< its name, for people
  int host_leader = 0;            ///< lowest world rank that shares memory with it; identifies the host
  std::vector<std::string> gpus;  ///< uuids of the GPUs that its process sees, by CUDA ordinal
  TopologyOptions options;        ///< that the rank was started with
};

/// The topology that follows from the facts of all ranks, by world rank. Does not communicate: the same facts
/// give the same topology, or the same InputError, on every rank.
Topology arrange(const std::vector<RankFacts>& facts);

std::string serialize(const RankFacts& facts);
RankFacts parse_facts(const std::string& text);

}  // namespace strata::comm
