// SPDX-License-Identifier: Apache-2.0
#include "placing/presampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "strata/batches/pipeline.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::batches {
namespace {

using test::RunSetup;

struct Recorded {
  std::vector<NodeId> input_nodes;
  std::vector<Count> visited;
  Count lists = 0, neighbors = 0, nodes = 0;
};

/// All nodes within `hops` steps against the edges, where the lists of other machines' nodes are unknown.
Recorded closure(const store::GraphView& graph, const std::vector<NodeId>& seeds, int hops) {
  Recorded result;
  std::set<NodeId> met(seeds.begin(), seeds.end());
  for (int hop = 0; hop < hops; ++hop) {
    result.visited.push_back(std::ssize(met));
    result.lists += std::ssize(met);
    const std::vector<NodeId> frontier(met.begin(), met.end());
    for (const NodeId node : frontier) {
      if (!graph.owns(node)) continue;
      const Count* range = graph.indptr + (node - graph.first_node);
      result.neighbors += range[1] - range[0];
      for (Count e = range[0]; e < range[1]; ++e) met.insert(graph.indices[e]);
    }
    result.nodes += std::ssize(met);
  }
  result.input_nodes.assign(met.begin(), met.end());
  return result;
}

/// A graph in as many parts as ranks, on machines of so many ranks (0: one machine).
class Presampler : public testing::TestWithParam<int> {
 protected:
  static constexpr Count kGlobalBatch = 60;
  static constexpr std::uint64_t kSeed = 9;

  void SetUp() override {
    directory_ = test::common_folder("presampler");
    const comm::Communicator& world = test::world().communicator();
    if (world.rank() == 0) {
      const auto graph = test::random_dataset({.num_nodes = 900, .num_edges = 1500, .seed = 4});
      parts_.emplace(*graph, world.size(), directory_, 5);
    }
    world.barrier();
    run_.emplace(GetParam());
    graph_.emplace(store::OpenParts(directory_, run_->ranks(), {}, false).read(0));
    world.barrier();
  }
  void TearDown() override { graph_.reset(); }

  FirstBatches options() {
    return {.sampler = {.fanouts = {-1, -1}},
            .global_batch = kGlobalBatch,
            .seed = kSeed,
            .pool = &pool_,
            .max_batches = 1000,
            .time_limit = std::chrono::hours(1),
            .max_shared_batches = 1000};
  }
  /// All machines together; what GPUs plan by is sampled by each machine on its own.
  std::vector<Recorded> presample_together(const FirstBatches& options) {
    std::vector<Recorded> batches;
    sample_ahead_together(options, *graph_, run_->ranks(), recorder(batches));
    return batches;
  }
  std::vector<Recorded> presample(const FirstBatches& options) {
    std::vector<Recorded> batches;
    sample_ahead(options, *graph_, run_->machine, recorder(batches));
    return batches;
  }
  static RecordReads recorder(std::vector<Recorded>& batches) {
    return [&batches](const plan::BatchReads& reads) {
      batches.push_back({{reads.input_nodes.begin(), reads.input_nodes.end()},
                         reads.visited,
                         reads.lists,
                         reads.neighbors,
                         reads.nodes});
    };
  }
  SeedSchedule training_schedule() const {
    return SeedSchedule({.nodes = graph_->train_nodes(),
                         .machine_offsets = graph_->machine_offsets(),
                         .part_offsets = graph_->part_offsets(),
                         .machine = run_->machine.index(),
                         .local_rank = run_->machine.rank(),
                         .machine_ranks = run_->machine.size(),
                         .global_batch = kGlobalBatch,
                         .seed = kSeed});
  }

  std::filesystem::path directory_;
  std::optional<test::PartitionedDataset> parts_;
  std::optional<RunSetup> run_;
  std::optional<store::OpenGraph> graph_;
  ThreadPool pool_{2};
};

TEST_P(Presampler, RecordsWhatTrainingWillRead) {
  std::vector<Recorded> batches = presample(options());
  const SeedSchedule schedule = training_schedule();
  ASSERT_GT(schedule.steps_per_epoch(), 2);
  ASSERT_EQ(std::ssize(batches), schedule.steps_per_epoch());
  for (Count step = 0; step < schedule.steps_per_epoch(); ++step) {
    Recorded& batch = batches[at(step)];
    const Recorded expected = closure(graph_->nodes(), schedule.step(0, step).seeds, 2);
    std::ranges::sort(batch.input_nodes);
    EXPECT_EQ(batch.input_nodes, expected.input_nodes);
    EXPECT_EQ(batch.visited, expected.visited);
    EXPECT_EQ(batch.lists, expected.lists);
    EXPECT_EQ(batch.neighbors, expected.neighbors);
    EXPECT_EQ(batch.nodes, expected.nodes);
  }
}

TEST_P(Presampler, StopsAtTheNumberOfBatches) {
  FirstBatches two = options();
  two.max_batches = 2;
  EXPECT_EQ(presample(two).size(), 2u);
}

TEST_P(Presampler, StopsByTheClockAfterOneBatchAtLeast) {
  FirstBatches hasty = options();
  hasty.time_limit = std::chrono::seconds(0);
  EXPECT_EQ(presample(hasty).size(), 1u);
}

// Beyond the machine's own lists, too.
TEST_P(Presampler, RecordsWhatTrainingOfAllMachinesWillRead) {
  std::vector<Recorded> batches = presample_together(options());
  const store::OpenGraph whole = store::OpenParts(directory_, run_->ranks(), {}, true).read(0);
  const SeedSchedule schedule = training_schedule();
  ASSERT_EQ(std::ssize(batches), schedule.steps_per_epoch());
  for (Count step = 0; step < schedule.steps_per_epoch(); ++step) {
    Recorded& batch = batches[at(step)];
    const Recorded expected = closure(whole.lists(), schedule.step(0, step).seeds, 2);
    std::ranges::sort(batch.input_nodes);
    EXPECT_EQ(batch.input_nodes, expected.input_nodes);
    EXPECT_EQ(batch.visited, expected.visited);
    EXPECT_EQ(batch.neighbors, expected.neighbors);
  }
}

// All ranks sample as many batches, by numbers that all of them know.
TEST_P(Presampler, OfAllMachinesStopsByBatchesOrNodes) {
  FirstBatches few = options();
  few.max_shared_batches = 3;
  EXPECT_EQ(presample_together(few).size(), 3u);
  few.max_shared_nodes = 1;
  EXPECT_EQ(presample_together(few).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Machines, Presampler, testing::Values(0, 1));

}  // namespace
}  // namespace strata::batches
