// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <vector>

#include "output/convert.hpp"
#include "random_graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/partition/inspect.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

/// 0<->1, 1<->2, 3->3, and 4 alone; classes 0, 0, 1, none, 1.
graph::Graph small_graph() {
  graph::Graph graph;
  graph.structure = {
      .num_nodes = 5, .indptr = {0, 1, 3, 4, 5, 5}, .indices = {1, 0, 2, 1, 3}, .edge_ids = {}};
  graph.labels = {0, 0, 1, -1, 1};
  graph.num_classes = 2;
  graph.splits.train = {0, 1};
  graph.node_weights = {.kinds = 2, .values = {1, 0, 2, 1000, 3, 0, 4, 0, 5, 7}};
  return graph;
}

TEST(Describe, CountsDegreesComponentsAndClasses) {
  ThreadPool pool(2);
  const GraphSummary summary = summarize(small_graph(), pool);
  EXPECT_EQ(summary.nodes, 5);
  EXPECT_EQ(summary.edges, 5);
  EXPECT_EQ(summary.in_degrees.least, 0);
  EXPECT_EQ(summary.in_degrees.median, 1);
  EXPECT_EQ(summary.in_degrees.most, 2);
  EXPECT_DOUBLE_EQ(summary.in_degrees.mean, 1);
  EXPECT_EQ(summary.in_degrees.without_neighbors, 1);
  EXPECT_EQ(summary.in_degrees.largest.size(), 5u);
  EXPECT_EQ(summary.in_degrees.largest[0].node, 1);
  EXPECT_EQ(summary.in_degrees.largest[1].node, 0);
  EXPECT_EQ(summary.components, 3);
  EXPECT_EQ(summary.largest_component, 3);
  ASSERT_TRUE(summary.labels);
  EXPECT_THAT(summary.labels->nodes_of_class, ElementsAre(2, 2));
  EXPECT_EQ(summary.labels->unlabelled, 1);
  EXPECT_THAT(summary.labels->homophily, Optional(DoubleEq(0.5)));  // of 0->1, 1->0, 1->2, 2->1
  EXPECT_THAT(summary.labels->homophily_by_chance, Optional(DoubleEq(0.75 * 0.75 + 0.25 * 0.25)));
  EXPECT_EQ(summary.memory.structure_bytes, 5 * 8 + 6 * 8);
  EXPECT_THAT(summary_text(summary), HasSubstr("15 in all, at most 5; 1,007 in all, at most 1,000"));
  EXPECT_THAT(summary_json(summary), HasSubstr("\"largest\": 1000"));
}

TEST(Describe, CountsTheModelAndTheBatchOfTheDefaultTraining) {
  ThreadPool pool(2);
  graph::Graph graph;
  constexpr Count kNodes = 5000, kCols = 10;
  graph.structure = {
      .num_nodes = kNodes, .indptr = std::vector<Count>(kNodes + 1, 0), .indices = {}, .edge_ids = {}};
  graph.features.cols = kCols;
  graph.num_classes = 7;
  graph.splits.train = {3};
  // One seed reaches 1 x 16 x 11 x 6 nodes.
  const GraphSummary one_seed = summarize(graph, pool);
  EXPECT_EQ(one_seed.memory.batch_row_bytes, 1056 * kCols * 4);
  EXPECT_EQ(one_seed.memory.batch_activation_bytes, (1 + 16 + 176) * 256 * 8 * 4);
  EXPECT_EQ(one_seed.memory.model_bytes, (21 * 256 + 513 * 256 + 513 * 7) * 16);
  graph.splits.train = {1, 2, 3, 4, 5};
  EXPECT_EQ(summarize(graph, pool).memory.batch_row_bytes, kNodes * kCols * 4) << "a batch has no node twice";
}

TEST(Describe, ListsTypesAndRelations) {
  ThreadPool pool(2);
  const std::vector<std::int64_t> writes{0, 1, 1, 2, 2, 0}, cites{1, 2, 0, 0};
  const auto ends = [](const std::vector<std::int64_t>& ids) {
    return graph::NpyArray{.origin = "edges",
                           .kind = 'i',
                           .item_bytes = 8,
                           .shape = {2, std::ssize(ids) / 2},
                           .data = reinterpret_cast<const std::byte*>(ids.data()),
                           .keep_alive = {}};
  };
  graph::TypedArrays arrays;
  arrays.nodes.push_back({.type = "author", .count = 2});
  arrays.nodes.push_back({.type = "paper", .count = 3});
  arrays.edges.push_back({{"author", "writes", "paper"}, ends(writes), {}});
  arrays.edges.push_back({{"paper", "cites", "paper"}, ends(cites), {}});
  const GraphSummary summary = summarize(graph::graph_from_typed_arrays(arrays, 1), pool);
  ASSERT_EQ(summary.node_types.size(), 2u);
  EXPECT_EQ(summary.node_types[1].nodes, 3);
  ASSERT_EQ(summary.relations.size(), 2u);
  EXPECT_EQ(summary.relations[0].edges, 3);
  EXPECT_EQ(summary.relations[1].edges, 2);
  EXPECT_THAT(summary_text(summary), HasSubstr("(paper, cites, paper)"));
  EXPECT_THAT(summary_json(summary), HasSubstr("\"name\": \"writes\""));
  EXPECT_TRUE(summarize(small_graph(), pool).node_types.empty());
}

TEST(Describe, TakesGraphsWithNothing) {
  ThreadPool pool(1);
  graph::Graph graph;
  graph.structure = {.num_nodes = 0, .indptr = {0}, .indices = {}, .edge_ids = {}};
  const GraphSummary summary = summarize(graph, pool);
  EXPECT_EQ(summary.components, 0);
  EXPECT_THAT(summary_text(summary), HasSubstr("no labels"));
  EXPECT_THAT(summary_json(summary), HasSubstr("\"labels\": null"));
}

TEST(Describe, CountsANodeOncePerClassOfItsSet) {
  ThreadPool pool(1);
  const graph::Graph graph = test::random_graph({.label_sets = true});
  const GraphSummary summary = summarize(graph, pool);
  ASSERT_TRUE(summary.labels);
  EXPECT_EQ(summary.labels->nodes_of_class.size(), 40u);
  EXPECT_FALSE(summary.labels->homophily);
  EXPECT_THAT(summary_text(summary), HasSubstr("smallest of all"));
}

void expect_same(const graph::Graph& read, const graph::Graph& graph) {
  EXPECT_EQ(read.structure.indptr, graph.structure.indptr);
  EXPECT_EQ(read.structure.indices, graph.structure.indices);
  EXPECT_EQ(read.structure.weights, graph.structure.weights);
  EXPECT_EQ(read.labels, graph.labels);
  EXPECT_EQ(read.node_weights.kinds, graph.node_weights.kinds);
  EXPECT_EQ(read.node_weights.values, graph.node_weights.values);
  EXPECT_EQ(read.multi_label, graph.multi_label);
  EXPECT_EQ(read.splits.train, graph.splits.train);
  EXPECT_EQ(read.splits.valid, graph.splits.valid);
  EXPECT_EQ(read.splits.test, graph.splits.test);
  ASSERT_EQ(read.features.cols, graph.features.cols);
  for (Count i = 0; i < graph.num_nodes() * graph.features.cols; ++i) {
    const auto value = [i](const graph::FeatureTable& table) {
      if (table.dtype == DType::f32) return reinterpret_cast<const float*>(table.data)[i];
      const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(table.data)[i];
      return table.dtype == DType::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    };
    ASSERT_EQ(value(read.features), value(graph.features)) << i;
  }
}

/// Readers refuse training nodes without a label.
bool has_label(const graph::Graph& graph, NodeId v) {
  const std::int32_t* const words = graph.labels.data() + v * graph.label_words();
  return !graph.labels.empty() &&
         (graph.multi_label ? !is_unlabelled(words, graph.num_classes) : *words >= 0);
}

TEST(Convert, WritesArraysThatAreTheSameGraph) {
  const test::TemporaryFolder folder;
  StopFlag stop;
  int number = 0;
  for (const test::RandomGraphOptions& options :
       {test::RandomGraphOptions{},
        {.undirected = true, .weights = true},
        {.label_sets = true},
        {.node_weight_kinds = 1},
        {.feature_cols = 0, .labels = false, .node_weight_kinds = 3},
        {.feature_dtype = DType::f16},
        {.feature_dtype = DType::bf16},
        {.feature_cols = 0, .labels = false}}) {
    graph::Graph graph = test::random_graph(options);
    if (options.labels) std::erase_if(graph.splits.train, [&](NodeId v) { return !has_label(graph, v); });
    const auto output = folder / ("npy" + std::to_string(number++));
    write_npy_folder(graph, output, stop);
    expect_same(graph::read_graph("npy:" + output.string(), {.duplicates = graph::EdgePolicy::keep}), graph);
  }
}

TEST(Convert, LeavesNothingIfStopped) {
  const test::TemporaryFolder folder;
  StopFlag stop;
  stop.request();
  EXPECT_THROW(write_npy_folder(test::random_graph({}), folder / "npy", stop), Stopped);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace strata::partition
