// SPDX-License-Identifier: Apache-2.0
// Graphs whose edges lie in scratch files, beside the same graphs in memory.
#include <gmock/gmock.h>

#include <numeric>

#include "assign/memory_plan.hpp"
#include "random_graph.hpp"
#include "strata/partition/build.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/error.hpp"
#include "strata/util/threads.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

using test::communities;
using test::expect_error;
using test::random_graph;
using test::stored;

constexpr std::int64_t kMib = 1 << 20;

Count cut_of(const graph::CscGraph& graph, const std::vector<std::int32_t>& parts) {
  Count cut = 0;
  for (NodeId v = 0; v < graph.num_nodes; ++v)
    for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v + 1)]; ++e)
      cut += parts[at(v)] != parts[at(graph.indices[at(e)])];
  return cut;
}

class Stored : public testing::Test {
 protected:
  std::vector<std::int32_t> in_memory(const graph::CscGraph& graph, const AssignOptions& options) {
    ThreadPool pool{2};
    CompactGraph lists = compact(graph, pool);
    lists.node_weights = weights_;
    return assign_parts(lists, train_, options, pool);
  }
  std::vector<std::int32_t> on_disk(const graph::CscGraph& graph, const AssignOptions& options,
                                    std::int64_t room, int threads) {
    ThreadPool pool{threads};
    ScratchStore scratch{folder_.path(), room};
    CompactGraph lists = compact(stored(graph, false, scratch), scratch);
    lists.node_weights = weights_;
    return assign_parts(lists, train_, options, pool);
  }

  graph::NodeWeights weights_ = test::random_node_weights(20'000, 1);
  std::vector<NodeId> train_{0, 5, 9, 14, 100, 101, 102, 103};
  test::TemporaryFolder folder_;
};

// With the smaller room, contracted graphs stay on disk, too, and METIS has none of it.
TEST_F(Stored, IsCutNearlyAsInMemoryAndTheSameForEveryNumberOfThreads) {
  const graph::CscGraph graph = communities(20'000, 150'000);
  for (const auto& balance : {std::vector{Constraint::nodes},
                              {Constraint::nodes, Constraint::edges},
                              {Constraint::nodes, Constraint::weights}}) {
    const AssignOptions options{
        .num_parts = 8, .method = PartitionMethod::multilevel, .balance = balance, .seed = 3};
    const Count expected = cut_of(graph, in_memory(graph, options));
    for (const std::int64_t room : {64 * kMib, kMib}) {
      const std::vector<std::int32_t> parts = on_disk(graph, options, room, 1);
      EXPECT_EQ(on_disk(graph, options, room, 3), parts);
      EXPECT_LE(static_cast<double>(cut_of(graph, parts)),
                (room > kMib ? 1.08 : 1.15) * static_cast<double>(expected));
      for (const Constraint constraint : balance) {
        std::vector<Count> loads(8);
        for (NodeId v = 0; v < graph.num_nodes; ++v)
          loads[at(parts[at(v)])] += constraint == Constraint::nodes ? 1
                                     : constraint == Constraint::edges
                                         ? graph.indptr[at(v + 1)] - graph.indptr[at(v)]
                                         : weights_.values[at(v)];
        const auto sum = static_cast<double>(std::accumulate(loads.begin(), loads.end(), Count{0}));
        EXPECT_LE(static_cast<double>(*std::ranges::max_element(loads)), sum / 8 * 1.03 + 1)
            << enum_name(constraint);
      }
    }
  }
}

TEST_F(Stored, IsCutWithDirectionsLoopsAndRepetitions) {
  const graph::Graph graph = random_graph({.num_nodes = 5000, .num_edges = 40'000, .feature_cols = 0});
  const AssignOptions options{
      .num_parts = 5, .method = PartitionMethod::multilevel, .quality = CutQuality::strong};
  const std::vector<std::int32_t> parts = on_disk(graph.structure, options, 8 * kMib, 2);
  EXPECT_LE(static_cast<double>(cut_of(graph.structure, parts)),
            1.1 * static_cast<double>(cut_of(graph.structure, in_memory(graph.structure, options))));
}

TEST_F(Stored, IsWrittenAsTheSameGraph) {
  for (const bool wide : {false, true})
    for (const bool weights : {false, true}) {
      const auto make = [&] {
        return random_graph({.num_nodes = 700, .num_edges = 9000, .undirected = weights, .weights = weights});
      };
      StopFlag stop;
      BuildOptions options{.output = folder_ / "memory", .assign = {.num_parts = 4}, .force = true};
      const BuildReport expected = build(make(), options, stop);
      options.output = folder_ / "disk";
      ScratchStore scratch{folder_.path(), 8 * kMib};
      graph::Graph graph = make();
      graph::StoredLists lists = stored(graph.structure, wide, scratch);
      graph.structure = {};
      graph.structure.num_nodes = 700;
      const BuildReport got =
          build(graph::StoredGraph{std::move(graph), std::move(lists)}, options, scratch, stop);
      if (!wide) {
        EXPECT_EQ(got.record.graph_digest, expected.record.graph_digest);
      }
      EXPECT_TRUE(verify(options.output, 2).empty());
    }
}

TEST_F(Stored, IsReadFromPartsAsTheSameGraph) {
  for (const bool wide : {false, true})
    for (const bool weights : {false, true}) {
      graph::Graph original =
          random_graph({.num_nodes = 700, .num_edges = 9000, .labels = false, .weights = weights});
      for (EdgeId& id : original.structure.edge_ids) id += wide ? EdgeId{1} << 40 : 0;
      StopFlag stop;
      BuildOptions options{.output = folder_ / "memory", .assign = {.num_parts = 4}, .force = true};
      const BuildReport expected = build(std::move(original), options, stop);
      const graph::Source parts(options.output.string());
      const graph::ReadOptions as_they_are{.duplicates = graph::EdgePolicy::keep};
      ScratchStore scratch{folder_.path(), 8 * kMib};
      graph::StoredGraph read = graph::read_stored_graph(parts, as_they_are, {}, scratch);
      ASSERT_TRUE(read.lists.has_value());
      EXPECT_EQ(read.lists->edge_ids.wide, wide);
      const graph::CleaningReport in_memory = graph::read_graph(parts, as_they_are).cleaning;
      EXPECT_GT(in_memory.self_loops, 0);
      EXPECT_EQ(read.graph.cleaning.self_loops, in_memory.self_loops);
      EXPECT_EQ(read.graph.cleaning.duplicates, in_memory.duplicates);
      options.output = folder_ / "disk";
      const BuildReport got = build(std::move(read), options, scratch, stop);
      EXPECT_EQ(got.record.graph_digest, expected.record.graph_digest);
      EXPECT_TRUE(verify(options.output, 2).empty());
    }
}

TEST_F(Stored, OutputAppearsOnlyIfTheLastCheckPasses) {
  StopFlag stop;
  BuildOptions options{.output = folder_ / "out", .assign = {.num_parts = 2}};
  options.before_publishing = [] { throw InputError("the input changed", "Start again."); };
  expect_error<InputError>([&] { build(random_graph({}), options, stop); }, {"the input changed"});
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST(MemoryPlans, KeepEdgesInMemoryWhereTheyFit) {
  const graph::InputSize input{.nodes = 1'000'000, .edges = 20'000'000};
  EXPECT_FALSE(plan_memory(input, memory_of_cut({}), {.limit_bytes = 2000 * kMib}).on_disk);
  const MemoryPlan plan = plan_memory(input, memory_of_cut({}), {.limit_bytes = 200 * kMib});
  EXPECT_TRUE(plan.on_disk);
  EXPECT_GT(plan.capacity_bytes, 64 * kMib);
  EXPECT_TRUE(plan_memory(input, memory_of_cut({}), {.limit_bytes = 1000 * kMib})
                  .on_disk);  // the list may be of one direction
}

TEST(MemoryPlans, CountWhatMetisTakesOfSmallGraphs) {
  const graph::InputSize input{.nodes = 100'000, .edges = 1'000'000};
  const MemoryOptions options{.limit_bytes = 120 * kMib};
  EXPECT_TRUE(plan_memory(input, memory_of_cut({}), options).on_disk);
  EXPECT_FALSE(plan_memory(input, memory_of_cut({.method = PartitionMethod::multilevel}), options).on_disk);
  EXPECT_FALSE(plan_memory(input, memory_of_cut({.method = PartitionMethod::range}), options).on_disk);
  EXPECT_THROW(plan_memory(input, memory_of_cut({.method = PartitionMethod::metis}), options), OutOfMemory);
}

TEST(MemoryPlans, SayWhatIsNeededAndWhyBeforeWorkBegins) {
  expect_error<OutOfMemory>(
      [] {
        plan_memory({.nodes = 10'000'000, .edges = 1'000'000'000}, memory_of_cut({}),
                    {.limit_bytes = 500 * kMib});
      },
      {"10,000,000 nodes (72 bytes each)", "500.0 MiB may be used", "--memory"});
  expect_error<OutOfMemory>(
      [] {
        plan_memory({.nodes = 1000, .edges = 1'000'000'000},
                    memory_of_cut({.method = PartitionMethod::metis}), {.limit_bytes = 500 * kMib});
      },
      {"METIS takes the whole graph", "--method auto"});
}

TEST(MemoryPlans, CountWeightsOfNodesThatAreBalanced) {
  const auto per_node = [](int kinds, const std::vector<Constraint>& balance) {
    const graph::InputSize input{.nodes = 1'000'000, .edges = 1'000'000'000, .node_weight_kinds = kinds};
    const MemoryUse use = memory_of_cut({.balance = balance});
    return (plan_memory(input, use, {.limit_bytes = 1000 * kMib}).capacity_bytes -
            plan_memory(input, memory_of_cut({}), {.limit_bytes = 1000 * kMib}).capacity_bytes) /
           -1'000'000;
  };
  EXPECT_EQ(per_node(2, {Constraint::nodes}), 0) << "only what is balanced takes more than its place";
  EXPECT_EQ(per_node(1, {Constraint::nodes, Constraint::weights}), 40);
  EXPECT_EQ(per_node(3, {Constraint::nodes, Constraint::weights}), 80);
}

TEST(ThreadsWithin, HaveTheirShareOfTheRoom) {
  constexpr std::int64_t kMib = std::int64_t{1} << 20;
  EXPECT_EQ(threads_within(64 * kMib, 16), 4);
  EXPECT_EQ(threads_within(64 * kMib, 3), 3);
  EXPECT_EQ(threads_within(0, 16), 1);
  EXPECT_EQ(threads_within(std::int64_t{1} << 50, 0), available_cores());
}

}  // namespace
}  // namespace strata::partition
