// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <numeric>

#include "strata/store/halo.hpp"
#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"

namespace strata::store {
namespace {

constexpr std::int32_t kHere = -1;  // instead of the rank to ask

void check_node(NodeId node, std::span<const NodeId> offsets) {
  if (node >= 0 && node < offsets.back()) return;
  throw Error(fmt::format("{} is not the id of a node (0 to {})", node, offsets.back() - 1));
}

}  // namespace

Servers Servers::of(const comm::Topology& topology, std::span<const NodeId> machine_offsets, int world_rank) {
  Servers servers{.machine_offsets = machine_offsets,
                  .machine = topology.ranks[at(world_rank)].machine,
                  .rank_of_machine = {},
                  .num_ranks = static_cast<int>(topology.ranks.size())};
  for (int m = 0; m < topology.num_machines(); ++m)
    servers.rank_of_machine.push_back(topology.rail(world_rank, m));
  return servers;
}

void OwnerSplit::run(std::span<const NodeId> nodes, const Servers& servers) {
  rank_of_node_.assign(nodes.size(), kHere);
  counts_.assign(at(servers.num_ranks), 0);
  kept_.clear();
  RangeFinder machine_of(servers.machine_offsets);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] == -1) continue;
    check_node(nodes[i], servers.machine_offsets);
    const int machine = machine_of(nodes[i]);
    if (machine == servers.machine) continue;
    if (const Count position = servers.halo != nullptr ? servers.halo->find(nodes[i]) : -1; position >= 0) {
      kept_.push_back({static_cast<std::int32_t>(i), position});
      continue;
    }
    rank_of_node_[i] = servers.rank_of_machine[at(machine)];
    ++counts_[at(rank_of_node_[i])];
  }
  next_.resize(counts_.size());
  std::exclusive_scan(counts_.begin(), counts_.end(), next_.begin(), Count{0});
  asked_.resize(at(std::reduce(counts_.begin(), counts_.end())));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (rank_of_node_[i] == kHere) continue;
    const auto place = at(next_[at(rank_of_node_[i])]++);
    asked_[place] = static_cast<std::int32_t>(i);
  }
}

}  // namespace strata::store
