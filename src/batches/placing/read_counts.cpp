// SPDX-License-Identifier: Apache-2.0
#include "placing/read_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <optional>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"

namespace strata::batches {
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
  auto rows = tensor::HostArray<std::uint32_t>::create(machine, num_nodes, "counts of rows");
  auto visits = tensor::HostArray<std::uint32_t>::create(machine, num_nodes, "counts of lists");
  return {std::move(rows), std::move(visits), own};
}

void ReadCounts::add(const plan::BatchReads& batch) {
  const auto is_own = [&](NodeId node) { return node >= own_.first && node < own_.end(); };
  for (const NodeId node : batch.input_nodes) {
    add_to(rows_.data()[node], 1);
    totals_.remote_rows += is_own(node) ? 0 : 1;
  }
  totals_.remote_visits.resize(std::max(totals_.remote_visits.size(), batch.visited.size()));
  for (std::size_t hop = 0; hop < batch.visited.size(); ++hop) {
    for (const NodeId node : batch.input_nodes.first(at(batch.visited[hop]))) {
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
  totals_.remote_visits.resize(at(num_hops));
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

plan::HaloReads ReadCounts::halo_reads() const {
  const auto a_batch = [&](Count sum) {
    return static_cast<double>(sum) / static_cast<double>(std::max<Count>(1, totals_.batches));
  };
  plan::HaloReads reads{.rows = a_batch(totals_.remote_rows), .visits = {}, .batches = totals_.batches};
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
    auto rows = tensor::HostArray<std::uint32_t>::create(machine, own.count, "rows that others read");
    auto visits = tensor::HostArray<std::uint32_t>::create(machine, own.count, "lists that others visit");
    served.emplace(std::move(rows), std::move(visits));
  });
  std::vector<std::vector<NodeReads>> by_rank(at(world.size()));
  for (int other = 0; other < ranks.topology->num_machines(); ++other) {
    if (other == machine.index()) continue;
    const NodeId begin = machine_offsets[at(other)], end = machine_offsets[at(other) + 1];
    Range share = share_of({0, end - begin}, machine.rank(), machine.size());
    share.first += begin;
    append_reads(counts, share, by_rank[at(ranks.topology->rail(world.rank(), other))]);
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

std::optional<MeanReads> mean_accesses(const comm::Machine& machine, const ReadCounts& counts,
                                       const ServedReads* served, const ReadTables& tables) {
  const plan::BucketMap map(tables.part_rows);
  const Range own = counts.own();
  std::vector<std::int64_t> rows(map.num_buckets());
  std::array<std::int64_t, 2> reads{};  // rows and lists of this machine
  const Range share = share_of({0, own.count}, machine.rank(), machine.size());
  for (Count row = share.first; row < share.end(); ++row) {
    const Count read = counts.rows(own.first + row) + (served ? served->rows.data()[row] : 0);
    rows[map.bucket_of(row)] += read;
    reads[0] += read;
    reads[1] += counts.visits(own.first + row) + (served ? served->visits.data()[row] : 0);
  }
  const store::NodeIndexView halo = tables.halo ? tables.halo->view() : store::NodeIndexView{};
  const Range kept = share_of({0, halo.size}, machine.rank(), machine.size());
  for (Count i = kept.first; i < kept.end(); ++i)
    rows[map.bucket_of(own.count + halo.positions[i])] += counts.rows(halo.nodes[i]);
  machine.communicator().all_reduce(std::span(rows));
  machine.communicator().all_reduce(std::span(reads));
  if (reads[0] == 0) return std::nullopt;

  const ReadCounts::Totals& totals = counts.totals();
  const Count visits =
      std::accumulate(totals.remote_visits.begin(), totals.remote_visits.end(), totals.own_visits);
  MeanReads mean{
      .accesses = plan::mean_accesses(
          map, {.rows = rows, .lists = reads[1], .nodes = totals.nodes, .batches = totals.batches}),
      .batches = totals.batches};
  if (visits > 0)
    mean.accesses.neighbors =
        mean.accesses.lists * (static_cast<double>(totals.neighbors) / static_cast<double>(visits));
  return mean;
}

AccessCounter::AccessCounter(const store::GraphView& graph, std::span<const Count> part_rows,
                             const store::NodeIndex* halo)
    : map_(part_rows),
      first_node_(graph.first_node),
      num_local_(graph.num_local),
      halo_(halo),
      rows_(map_.num_buckets()) {
  const Count num_rows = std::accumulate(part_rows.begin(), part_rows.end(), Count{0});
  const Count expected = num_local_ + (halo ? halo->size() : 0);
  if (num_rows == expected) return;
  throw Error(fmt::format("accesses of {} nodes are to be counted in parts of {}", expected, num_rows));
}

void AccessCounter::add(const plan::BatchReads& batch) {
  for (const NodeId node : batch.input_nodes) {
    const Count row = node - first_node_;
    if (row >= 0 && row < num_local_) {
      ++rows_[map_.bucket_of(row)];
      ++local_inputs_;
    } else if (const Count kept = halo_ ? halo_->find(node) : -1; kept >= 0) {
      ++rows_[map_.bucket_of(num_local_ + kept)];
    } else {
      ++other_inputs_;
    }
  }
  lists_ += batch.lists;
  neighbors_ += batch.neighbors;
  nodes_ += batch.nodes;
  ++batches_;
}

std::optional<MeanReads> AccessCounter::mean(const comm::Machine& machine) const {
  std::vector<std::int64_t> rows = rows_;
  std::array totals{local_inputs_, other_inputs_, lists_, neighbors_, nodes_, batches_};
  machine.communicator().all_reduce(std::span(rows));
  machine.communicator().all_reduce(std::span(totals));
  const auto [local, others, lists, neighbors, nodes, batches] = totals;
  if (local == 0) return std::nullopt;
  const double with_others = static_cast<double>(local + others) / static_cast<double>(local);
  const plan::CountedReads counted{
      .rows = rows, .lists = lists, .neighbors = neighbors, .nodes = nodes, .batches = batches};
  const std::size_t num_parts = map_.num_segments() - (halo_ ? 1 : 0);
  return MeanReads{.accesses = plan::mean_accesses(map_, counted, num_parts, with_others),
                   .batches = batches};
}

}  // namespace strata::batches
