// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"

namespace strata::comm {

/// What one rank knows of its own place.
struct RankFacts {
  std::string host;     ///< its name, for people
  int host_leader = 0;  ///< lowest world rank that shares memory with it: names the host for the program
  std::vector<std::string> gpus;  ///< uuids of the GPUs that its process sees, by CUDA ordinal
  TopologyOptions options;        ///< as it was started
};

/// The topology that follows from what all ranks (by world rank) know. Needs no communication: the same facts
/// give the same topology or the same InputError on every rank.
Topology arrange(const std::vector<RankFacts>& facts);

std::string serialize(const RankFacts& facts);
RankFacts parse_facts(const std::string& text);

}  // namespace strata::comm
