// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "strata/batches/placed_graph.hpp"
#include "support/machine_graph_cases.hpp"

namespace strata::store {
namespace {

using test::DatasetOptions;
using test::Parts;
using test::RunSetup;
using test::world;

/// The same graph without the edges that have another node than a training node on one end.
std::unique_ptr<graph::Graph> induced(const DatasetOptions& options) {
  std::unique_ptr<graph::Graph> graph = test::random_dataset(options);
  std::vector<bool> trains(at(graph->num_nodes()));
  for (const NodeId node : graph->splits.train) trains[at(node)] = true;
  auto& indptr = graph->structure.indptr;
  auto& indices = graph->structure.indices;
  auto& weights = graph->structure.weights;
  std::vector<Count> ends{0};
  std::size_t kept = 0;
  for (std::size_t node = 0; node + 1 < indptr.size(); ++node) {
    for (auto edge = at(indptr[node]); edge < at(indptr[node + 1]); ++edge) {
      if (!trains[node] || !trains[at(indices[edge])]) continue;
      indices[kept] = indices[edge];
      weights[kept++] = weights[edge];
    }
    ends.push_back(static_cast<Count>(kept));
  }
  indptr = ends;
  indices.resize(kept);
  weights.resize(kept);
  graph->structure.edge_ids.clear();
  return graph;
}

void expect_whole(const GraphView& view, const graph::Graph& graph, const LoadOptions& options) {
  for (Count row = 0; row < view.num_local; ++row) {
    const NodeId original = view.original_ids[view.first_node + row];
    test::expect_list(view, row, original, graph);
    const Count first = graph.structure.indptr[at(original)];
    for (Count edge = view.indptr[row]; edge < view.indptr[row + 1]; ++edge) {
      const auto place = at(first + edge - view.indptr[row]);
      ASSERT_EQ(view.weights[edge], graph.structure.weights[place]);
    }
  }
  for (NodeId node = 0; node < view.num_nodes; ++node) {
    const auto original = at(view.original_ids[node]);
    const auto begin = graph.structure.indices.begin() + graph.structure.indptr[original],
               end = graph.structure.indices.begin() + graph.structure.indptr[original + 1];
    const Count loops = options.degrees_of_loops ? 0 : std::count(begin, end, static_cast<NodeId>(original));
    ASSERT_EQ(view.in_degrees[node], end - begin - loops) << "node " << original;
  }
}

void expect_both(const MachineGraph& loaded, const DatasetOptions& dataset, const graph::Graph& graph,
                 const LoadOptions& options) {
  const std::unique_ptr<graph::Graph> subgraph = induced(dataset);
  ASSERT_GT(subgraph->structure.num_edges(), 0);
  ASSERT_LT(subgraph->structure.num_edges(), graph.structure.num_edges());
  test::expect_is(loaded, *subgraph, options);
  expect_whole(loaded.whole_host_view(), graph, options);
  expect_whole(loaded.whole_view(), graph, options);
}

TEST(TrainEdges, AreTheListsOfPartsBesideTheWholeGraphs) {
  std::uint64_t seed = 700;
  for (const int ranks_per_machine : {0, 1}) {
    for (const plan::Replication replication : {plan::Replication::off, plan::Replication::on}) {
      for (const bool loops : {true, false}) {
        const RunSetup run(ranks_per_machine);
        const DatasetOptions dataset{.num_nodes = 900, .num_edges = 9000, .num_clusters = 2, .seed = ++seed};
        SCOPED_TRACE(testing::Message() << ranks_per_machine << " ranks a machine, seed " << seed);
        const Parts parts(dataset, 4);
        const LoadOptions options{.edge_weights = true,
                                  .train_edges_only = true,
                                  .in_degrees = true,
                                  .degrees_of_loops = loops,
                                  .replication = replication,
                                  .halo_bytes = 20'000};
        MachineGraph loaded = batches::load_parts(parts.directory(), run.ranks(), options);
        expect_both(loaded, dataset, parts.graph(), options);
        EXPECT_EQ(loaded.halo_lists(), nullptr);
        loaded.close(run.machine);
      }
    }
  }
}

TEST(TrainEdges, AreTheListsOfAGraphInMemoryToo) {
  for (const bool loops : {true, false}) {
    const RunSetup run(0);
    const DatasetOptions dataset{.num_nodes = 900, .num_edges = 9000, .seed = 750};
    auto given = run.machine.rank() == 0 ? test::random_dataset(dataset) : nullptr;
    const LoadOptions options{
        .edge_weights = true, .train_edges_only = true, .in_degrees = true, .degrees_of_loops = loops};
    MachineGraph loaded = batches::take_graph(std::move(given), run.machine, options);
    expect_both(loaded, dataset, *test::random_dataset(dataset), options);
    loaded.close(run.machine);
  }
}

TEST(TrainEdges, OtherGraphsHaveOneViewOnly) {
  const RunSetup run(0);
  auto given = run.machine.rank() == 0 ? test::random_dataset({.seed = 760}) : nullptr;
  MachineGraph loaded = batches::take_graph(std::move(given), run.machine, {});
  EXPECT_EQ(&loaded.whole_view(), &loaded.view());
  EXPECT_EQ(&loaded.whole_host_view(), &loaded.host_view());
  loaded.close(run.machine);
}

}  // namespace
}  // namespace strata::store
