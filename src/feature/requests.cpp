// SPDX-License-Identifier: Apache-2.0
#include "requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "strata/util/error.hpp"
#include "strata/util/range_finder.hpp"

namespace strata::feature {
namespace {

constexpr int kLocal = -1;

void check_id(NodeId id, std::span<const NodeId> offsets) {
  if (id >= 0 && id < offsets.back()) return;
  throw Error(fmt::format("{} is not the id of a node (0 to {})", id, offsets.back() - 1));
}

void check_count(std::size_t count) {
  if (count <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) return;
  throw Error(fmt::format("{} rows at once are too many to fetch (2^31 - 1)", count));
}

struct Wanted {
  NodeId id;
  std::int32_t position;
};

/// Sorts ids that consist of a few ascending runs, as sampled ids do.
void merge_runs(std::span<Wanted> wanted) {
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = 1; i < wanted.size(); ++i)
    if (wanted[i].id < wanted[i - 1].id) begins.push_back(i);
  begins.push_back(wanted.size());
  while (begins.size() > 2) {
    std::vector<std::size_t> merged;
    for (std::size_t run = 0; run + 1 < begins.size(); run += 2) {
      merged.push_back(begins[run]);
      if (run + 2 >= begins.size()) break;
      std::ranges::inplace_merge(wanted.begin() + static_cast<std::ptrdiff_t>(begins[run]),
                                 wanted.begin() + static_cast<std::ptrdiff_t>(begins[run + 1]),
                                 wanted.begin() + static_cast<std::ptrdiff_t>(begins[run + 2]), {},
                                 &Wanted::id);
    }
    merged.push_back(wanted.size());
    begins = std::move(merged);
  }
}

}  // namespace

Servers Servers::of(const comm::Topology& topology, std::span<const NodeId> machine_offsets, int world_rank) {
  Servers servers{.machine_offsets = machine_offsets,
                  .machine = topology.ranks[static_cast<std::size_t>(world_rank)].machine,
                  .rank_of_machine = {},
                  .num_ranks = static_cast<int>(topology.ranks.size())};
  for (int m = 0; m < topology.num_machines(); ++m)
    servers.rank_of_machine.push_back(topology.rail(world_rank, m));
  return servers;
}

Count Requests::largest() const {
  Count most = 0;
  for (std::size_t r = 0; r + 1 < first_of_rank.size(); ++r)
    most = std::max(most, first_of_rank[r + 1] - first_of_rank[r]);
  return most;
}

Requests split_requests(std::span<const NodeId> ids, const Servers& servers, const SplitTarget& target) {
  check_count(ids.size());
  std::vector<int> server_of(ids.size());
  Requests requests{.remote_ids = {},
                    .first_of_rank = std::vector<Count>(static_cast<std::size_t>(servers.num_ranks) + 1)};
  RangeFinder machine_of(servers.machine_offsets);
  const NodeId end_of_machine = servers.machine_offsets[static_cast<std::size_t>(servers.machine) + 1];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    int machine = servers.machine;
    if (ids[i] != -1) {
      check_id(ids[i], servers.machine_offsets);
      machine = machine_of(ids[i]);
    }
    target.local_ids[i] = ids[i];
    server_of[i] = kLocal;
    if (machine == servers.machine) continue;
    if (const Count kept = servers.halo != nullptr ? servers.halo->find(ids[i]) : -1; kept >= 0) {
      target.local_ids[i] = end_of_machine + kept;
      ++requests.cached;
      continue;
    }
    target.local_ids[i] = -1;
    server_of[i] = servers.rank_of_machine[static_cast<std::size_t>(machine)];
    ++requests.first_of_rank[static_cast<std::size_t>(server_of[i]) + 1];
  }
  std::partial_sum(requests.first_of_rank.begin(), requests.first_of_rank.end(),
                   requests.first_of_rank.begin());
  std::vector<Wanted> wanted(static_cast<std::size_t>(requests.first_of_rank.back()));
  std::vector<Count> next(requests.first_of_rank);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (server_of[i] == kLocal) continue;
    const Count place = next[static_cast<std::size_t>(server_of[i])]++;
    wanted[static_cast<std::size_t>(place)] = {ids[i], static_cast<std::int32_t>(i)};
  }
  for (int rank = 0; rank < servers.num_ranks; ++rank) {
    merge_runs(std::span(wanted).subspan(
        static_cast<std::size_t>(requests.first_of_rank[static_cast<std::size_t>(rank)]),
        static_cast<std::size_t>(requests.count_for(rank))));
  }
  requests.remote_ids.reserve(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    requests.remote_ids.push_back(wanted[i].id);
    target.positions[i] = wanted[i].position;
  }
  return requests;
}

namespace {

/// Asks for the ids of one other machine, except for those of the halo.
void ask_for(const SortedIds& of_machine, const Servers& servers, const SplitTarget& target,
             Requests& requests) {
  const NodeId end_of_machine = servers.machine_offsets[static_cast<std::size_t>(servers.machine) + 1];
  for (std::size_t i = 0; i < of_machine.ids.size(); ++i) {
    const NodeId id = of_machine.ids[i];
    const std::int32_t position = of_machine.positions[i];
    if (const Count kept = servers.halo != nullptr ? servers.halo->find(id) : -1; kept >= 0) {
      target.local_ids[position] = end_of_machine + kept;
      ++requests.cached;
      continue;
    }
    target.local_ids[position] = -1;
    target.positions[requests.remote_ids.size()] = position;
    requests.remote_ids.push_back(id);
  }
}

}  // namespace

// The ids of a machine are consecutive among the sorted ids.
Requests split_requests(std::span<const NodeId> ids, const SortedIds& sorted, const Servers& servers,
                        const SplitTarget& target) {
  check_count(ids.size());
  if (!sorted.ids.empty()) {
    check_id(sorted.ids.front(), servers.machine_offsets);
    check_id(sorted.ids.back(), servers.machine_offsets);
  }
  std::ranges::copy(ids, target.local_ids);
  Requests requests{.remote_ids = {}, .first_of_rank = {0}};
  std::vector<int> machine_of(static_cast<std::size_t>(servers.num_ranks), servers.machine);
  for (std::size_t machine = 0; machine < servers.rank_of_machine.size(); ++machine)
    machine_of[static_cast<std::size_t>(servers.rank_of_machine[machine])] = static_cast<int>(machine);
  for (const int machine : machine_of) {
    if (machine != servers.machine) {
      const auto first = servers.machine_offsets.begin() + machine;
      const auto begin = std::ranges::lower_bound(sorted.ids, first[0]),
                 end = std::ranges::lower_bound(sorted.ids, first[1]);
      ask_for({{begin, end}, sorted.positions + (begin - sorted.ids.begin())}, servers, target, requests);
    }
    requests.first_of_rank.push_back(std::ssize(requests.remote_ids));
  }
  return requests;
}

}  // namespace strata::feature
