// SPDX-License-Identifier: Apache-2.0
#include "rows/requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "strata/util/error.hpp"

namespace strata::batches {
namespace {

void check_id(NodeId id, std::span<const NodeId> offsets) {
  if (id >= 0 && id < offsets.back()) return;
  throw Error(fmt::format("{} is not the id of a node (0 to {})", id, offsets.back() - 1));
}

void check_count(Count count) {
  if (count <= std::numeric_limits<std::int32_t>::max()) return;
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

Requests split_in_any_order(std::span<const NodeId> ids, const store::Servers& servers,
                            const SplitTarget& target) {
  store::OwnerSplit split;
  split.run(ids, servers);
  for (const auto& kept : split.kept())
    target.local_ids[kept.index] = servers.end_of_machine() + kept.position;

  std::vector<Wanted> wanted;
  wanted.reserve(split.asked().size());
  for (const std::int32_t index : split.asked()) {
    wanted.push_back({ids[at(index)], index});
    target.local_ids[index] = -1;
  }
  Requests requests{
      .remote_ids = {}, .first_of_rank = {0}, .cached = static_cast<Count>(split.kept().size())};
  for (const Count count : split.counts()) {
    const Count first = requests.first_of_rank.back();
    merge_runs(std::span(wanted).subspan(at(first), at(count)));
    requests.first_of_rank.push_back(first + count);
  }
  requests.remote_ids.reserve(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    requests.remote_ids.push_back(wanted[i].id);
    target.positions[i] = wanted[i].position;
  }
  return requests;
}

/// Asks for the ids of one other machine, except for those of the halo.
void ask_for(std::span<const NodeId> of_machine, const std::int32_t* positions, const store::Servers& servers,
             const SplitTarget& target, Requests& requests) {
  for (const NodeId id : of_machine) {
    const std::int32_t position = *positions++;
    if (const Count kept = servers.halo != nullptr ? servers.halo->find(id) : -1; kept >= 0) {
      target.local_ids[position] = servers.end_of_machine() + kept;
      ++requests.cached;
      continue;
    }
    target.local_ids[position] = -1;
    target.positions[requests.remote_ids.size()] = position;
    requests.remote_ids.push_back(id);
  }
}

// The ids of a machine are consecutive among the sorted ids.
Requests split_in_order(std::span<const NodeId> sorted, const std::int32_t* positions,
                        const store::Servers& servers, const SplitTarget& target) {
  if (!sorted.empty()) {
    check_id(sorted.front(), servers.machine_offsets);
    check_id(sorted.back(), servers.machine_offsets);
  }
  Requests requests{.remote_ids = {}, .first_of_rank = {0}};
  std::vector<int> machine_of(at(servers.num_ranks), servers.machine);
  for (std::size_t machine = 0; machine < servers.rank_of_machine.size(); ++machine)
    machine_of[at(servers.rank_of_machine[machine])] = static_cast<int>(machine);
  for (const int machine : machine_of) {
    if (machine != servers.machine) {
      const auto first = servers.machine_offsets.begin() + machine;
      const auto begin = std::ranges::lower_bound(sorted, first[0]),
                 end = std::ranges::lower_bound(sorted, first[1]);
      ask_for({begin, end}, positions + (begin - sorted.begin()), servers, target, requests);
    }
    requests.first_of_rank.push_back(std::ssize(requests.remote_ids));
  }
  return requests;
}

}  // namespace

Count Requests::largest() const {
  Count most = 0;
  for (std::size_t r = 0; r + 1 < first_of_rank.size(); ++r)
    most = std::max(most, first_of_rank[r + 1] - first_of_rank[r]);
  return most;
}

Requests split_requests(const FetchedIds& wanted, const store::Servers& servers, const SplitTarget& target) {
  check_count(wanted.count);
  const auto count = at(wanted.count);
  std::copy_n(wanted.ids, count, target.local_ids);
  if (wanted.sorted == nullptr) return split_in_any_order({wanted.ids, count}, servers, target);
  return split_in_order({wanted.sorted, count}, wanted.sorted_positions, servers, target);
}

}  // namespace strata::batches
