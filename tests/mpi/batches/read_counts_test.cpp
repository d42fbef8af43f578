// SPDX-License-Identifier: Apache-2.0
#include "placing/read_counts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "strata/plan/heat.hpp"
#include "support/run_setup.hpp"

namespace strata::batches {
namespace {

using test::RunSetup;

/// What a rank's batch reads: random nodes, of which the first are visited.
struct Batch {
  std::vector<NodeId> nodes;
  std::vector<Count> visited;

  plan::BatchReads reads() const {
    return {.input_nodes = nodes,
            .visited = visited,
            .lists = visited[0] + visited[1],
            .neighbors = 3 * (visited[0] + visited[1]),
            .nodes = std::ssize(nodes)};
  }
};

Batch random_batch(Count num_nodes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<NodeId> nodes;
  const Count size = std::min<Count>(num_nodes, 40 + static_cast<Count>(random() % 100));
  while (std::ssize(nodes) < size)
    nodes.insert(static_cast<NodeId>(random() % static_cast<std::uint64_t>(num_nodes)));
  Batch batch{{nodes.begin(), nodes.end()}, {size / 4, size / 2}};
  std::ranges::shuffle(batch.nodes, random);
  return batch;
}

/// Machines that own runs of the nodes; every rank knows the batches of all ranks.
class Counts : public testing::TestWithParam<int> {
 protected:
  static constexpr int kBatches = 3;

  Counts() : run_(GetParam()) {
    offsets_.push_back(0);
    for (int m = 0; m < run_.topology.num_machines(); ++m) offsets_.push_back(offsets_.back() + 100 + 50 * m);
  }
  Range own() const { return own_of(run_.machine.index()); }
  Range own_of(int machine) const {
    const auto m = at(machine);
    return {offsets_[m], offsets_[m + 1] - offsets_[m]};
  }
  Batch batch_of(int rank, int i) const {
    return random_batch(offsets_.back(), static_cast<std::uint64_t>(100 * rank + i));
  }
  ReadCounts count() const {
    ReadCounts counts = ReadCounts::create(run_.machine, offsets_.back(), own());
    for (int i = 0; i < kBatches; ++i) {
      const Batch batch = batch_of(test::world().rank(), i);
      counts.add(batch.reads());
    }
    counts.finish(run_.machine);
    return counts;
  }
  /// {rows, visits} of every node, by the batches of these machines.
  std::map<NodeId, std::array<std::uint32_t, 2>> expected(const std::vector<int>& machines) const {
    std::map<NodeId, std::array<std::uint32_t, 2>> reads;
    for (const int machine : machines) {
      for (const int rank : run_.topology.machines[at(machine)]) {
        for (int i = 0; i < kBatches; ++i) {
          const Batch batch = batch_of(rank, i);
          for (const NodeId node : batch.nodes) ++reads[node][0];
          for (const Count visited : batch.visited)
            for (Count v = 0; v < visited; ++v) ++reads[batch.nodes[at(v)]][1];
        }
      }
    }
    return reads;
  }
  std::vector<int> other_machines() const {
    std::vector<int> others;
    for (int m = 0; m < run_.topology.num_machines(); ++m)
      if (m != run_.machine.index()) others.push_back(m);
    return others;
  }

  RunSetup run_;
  std::vector<NodeId> offsets_;
};

TEST_P(Counts, AddUpTheBatchesOfAMachine) {
  const ReadCounts counts = count();
  auto reads = expected({run_.machine.index()});
  Count remote_rows = 0, own_visits = 0, remote_visits = 0;
  for (NodeId node = 0; node < offsets_.back(); ++node) {
    EXPECT_EQ(counts.rows(node), reads[node][0]) << node;
    EXPECT_EQ(counts.visits(node), reads[node][1]) << node;
    const bool is_own = node >= own().first && node < own().end();
    remote_rows += is_own ? 0 : reads[node][0];
    (is_own ? own_visits : remote_visits) += reads[node][1];
  }
  const ReadCounts::Totals& totals = counts.totals();
  EXPECT_EQ(totals.batches, kBatches * run_.machine.size());
  EXPECT_EQ(totals.own_visits, own_visits);
  EXPECT_EQ(totals.remote_rows, remote_rows);
  ASSERT_EQ(totals.remote_visits.size(), 2u);
  EXPECT_EQ(totals.remote_visits[0] + totals.remote_visits[1], remote_visits);
  const plan::HaloReads halo = counts.halo_reads();
  EXPECT_DOUBLE_EQ(halo.rows, static_cast<double>(remote_rows) / static_cast<double>(totals.batches));
  EXPECT_EQ(halo.batches, totals.batches);
  run_.machine.barrier();
}

TEST_P(Counts, TellOwnersWhatOthersRead) {
  const ReadCounts counts = count();
  const ServedReads served = exchange_reads(counts, run_.ranks(), offsets_);
  auto reads = expected(other_machines());
  for (Count row = 0; row < own().count; ++row) {
    const NodeId node = own().first + row;
    EXPECT_EQ(served.rows.data()[row], reads[node][0]) << node;
    EXPECT_EQ(served.visits.data()[row], reads[node][1]) << node;
  }
  run_.machine.barrier();
}

// The heat of own rows is what this machine's and other machines' batches read of them.
TEST_P(Counts, MakeTheHeatOfAMachineWithWhatOthersRead) {
  const ReadCounts counts = count();
  const ServedReads served = exchange_reads(counts, run_.ranks(), offsets_);
  std::vector<int> all = other_machines();
  all.push_back(run_.machine.index());
  auto reads = expected(all), here = expected({run_.machine.index()});
  std::vector<NodeId> kept;
  for (const int machine : other_machines()) kept.push_back(own_of(machine).first + 7);
  const store::NodeIndex halo(kept, offsets_.back());
  std::vector<Count> part_rows{own().count};
  if (!kept.empty()) part_rows.push_back(std::ssize(kept));
  const auto mean = mean_accesses(run_.machine, counts, &served, {part_rows, kept.empty() ? nullptr : &halo});
  ASSERT_TRUE(mean.has_value());
  double rows = 0, lists = 0, of_halo = 0;
  for (NodeId node = own().first; node < own().end(); ++node) rows += reads[node][0], lists += reads[node][1];
  for (const NodeId node : kept) of_halo += here[node][0];
  const double batches = kBatches * run_.machine.size();
  EXPECT_NEAR(mean->accesses.features[0].accesses(), rows / batches, 1e-9);
  EXPECT_NEAR(mean->accesses.lists, lists / batches, 1e-9);
  EXPECT_NEAR(mean->accesses.neighbors, 3 * lists / batches, 1e-9);
  if (!kept.empty()) {
    EXPECT_NEAR(mean->accesses.features[1].accesses(), of_halo / batches, 1e-9);
  }
  run_.machine.barrier();
}

INSTANTIATE_TEST_SUITE_P(RanksPerMachine, Counts, testing::Values(0, 1));

}  // namespace
}  // namespace strata::batches
