// SPDX-License-Identifier: Apache-2.0
#include "cache/read_counts.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "strata/util/shares.hpp"

namespace strata::store {
namespace {

void add_to(std::uint32_t& sum, std::uint32_t value) {
  std::atomic_ref(sum).fetch_add(value, std::memory_order_relaxed);
}

/// A node, and how often batches of a machine read it.
struct NodeReads {
  NodeId node;
  std::uint32_t rows, visits;
};

void append_reads(const ReadCounts& counts, Range nodes, std::vector<NodeReads>& reads) {
  for (NodeId node = nodes.first; node < nodes.end(); ++node) {
    const NodeReads read{node, counts.rows(node), counts.visits(node)};
    if (read.rows > 0 || read.visits > 0) reads.push_back(read);
  }
}

}  // namespace

ReadCounts ReadCounts::create(const comm::Machine& machine, Count num_nodes, Range own) {
  auto rows = HostArray<std::uint32_t>::create(machine, num_nodes, "counts of rows");
  auto visits = HostArray<std::uint32_t>::create(machine, num_nodes, "counts of lists");
  return {std::move(rows), std::move(visits), own};
}

void ReadCounts::add(const BatchReads& batch) {
  const auto is_own = [&](NodeId node) { return node >= own_.first && node < own_.end(); };
  for (const NodeId node : batch.input_nodes) {
    add_to(rows_.data()[node], 1);
    totals_.remote_rows += is_own(node) ? 0 : 1;
  }
  totals_.remote_visits.resize(std::max(totals_.remote_visits.size(), batch.visited.size()));
  for (std::size_t hop = 0; hop < batch.visited.size(); ++hop) {
    for (const NodeId node : batch.input_nodes.first(static_cast<std::size_t>(batch.visited[hop]))) {
      add_to(visits_.data()[node], 1);
      ++(is_own(node) ? totals_.own_visits : totals_.remote_visits[hop]);
    }
  }
  totals_.neighbors += batch.neighbors;
  totals_.nodes += batch.nodes;
  ++totals_.batches;
}

void ReadCounts::finish(const comm::Machine& machine) {
  std::int64_t num_hops = std::ssize(totals_.remote_visits);
  machine.communicator().all_reduce(std::span(&num_hops, 1), comm::Communicator::Op::max);
  std::vector<std::int64_t> sums{totals_.batches, totals_.own_visits, totals_.neighbors, totals_.nodes,
                                 totals_.remote_rows};
  totals_.remote_visits.resize(static_cast<std::size_t>(num_hops));
  sums.insert(sums.end(), totals_.remote_visits.begin(), totals_.remote_visits.end());
  machine.communicator().all_reduce(std::span(sums));
  totals_ = {.batches = sums[0],
             .own_visits = sums[1],
             .neighbors = sums[2],
             .nodes = sums[3],
             .remote_rows = sums[4],
             .remote_visits = {sums.begin() + 5, sums.end()}};
  machine.barrier();
}

HaloReads ReadCounts::halo_reads() const {
  const auto a_batch = [&](Count sum) {
    return static_cast<double>(sum) / static_cast<double>(std::max<Count>(1, totals_.batches));
  };
  HaloReads reads{.rows = a_batch(totals_.remote_rows), .visits = {}, .batches = totals_.batches};
  for (const Count visits : totals_.remote_visits) reads.visits.push_back(a_batch(visits));
  return reads;
}

ServedReads exchange_reads(const ReadCounts& counts, const comm::Ranks& ranks,
                           std::span<const NodeId> machine_offsets) {
  const comm::Communicator& world = *ranks.world;
  const comm::Machine& machine = *ranks.machine;
  const Range own = counts.own();
  std::optional<ServedReads> served;
  world.together([&] {
    auto rows = HostArray<std::uint32_t>::create(machine, own.count, "rows that others read");
    auto visits = HostArray<std::uint32_t>::create(machine, own.count, "lists that others visit");
    served.emplace(std::move(rows), std::move(visits));
  });
  std::vector<std::vector<NodeReads>> by_rank(static_cast<std::size_t>(world.size()));
  for (int other = 0; other < ranks.topology->num_machines(); ++other) {
    if (other == machine.index()) continue;
    const NodeId begin = machine_offsets[static_cast<std::size_t>(other)],
                 end = machine_offsets[static_cast<std::size_t>(other) + 1];
    Range share = share_of({0, end - begin}, machine.rank(), machine.size());
    share.first += begin;
    append_reads(counts, share, by_rank[static_cast<std::size_t>(ranks.topology->rail(world.rank(), other))]);
  }
  std::vector<NodeReads> reads;
  std::vector<Count> sizes;
  for (std::vector<NodeReads>& of_rank : by_rank) {
    reads.insert(reads.end(), of_rank.begin(), of_rank.end());
    sizes.push_back(std::ssize(of_rank));
    of_rank = {};
  }
  for (const NodeReads& read : world.all_to_all(std::span<const NodeReads>(reads), sizes).values) {
    add_to(served->rows.data()[read.node - own.first], read.rows);
    add_to(served->visits.data()[read.node - own.first], read.visits);
  }
  machine.barrier();
  return std::move(*served);
}

}  // namespace strata::store
