// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "strata/comm/machine.hpp"

namespace strata::comm {

std::vector<int> ranks_on(const Topology& topology, Device::Kind kind) {
  std::vector<int> found;
  for (std::size_t rank = 0; rank < topology.ranks.size(); ++rank) {
    if (topology.ranks[rank].device.kind == kind) found.push_back(static_cast<int>(rank));
  }
  return found;
}

std::string names_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& host_of_rank) {
  const auto host_of = [&](int rank) -> const std::string& { return host_of_rank[at(rank)]; };
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : "", ranks[i]);
    if (i + 1 == ranks.size() || host_of(ranks[i + 1]) != host_of(ranks[i]))
      text += fmt::format(" (host {})", host_of(ranks[i]));
  }
  return text;
}

std::string names_of_ranks(const std::vector<int>& ranks, const Topology& topology) {
  std::vector<std::string> hosts;
  for (const Topology::Rank& rank : topology.ranks) hosts.push_back(rank.host);
  return names_of_ranks(ranks, hosts);
}

}  // namespace strata::comm
