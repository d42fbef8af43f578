// SPDX-License-Identifier: Apache-2.0
// Edges of validation and test, which no neighbor list has.
#include "strata/graph/edge_split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "strata/graph/read_graph.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "support/dataset_files.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/typed_graph.hpp"

namespace strata::graph {
namespace {

using test::expect_error;
using Pair = std::pair<NodeId, NodeId>;
using Edge = std::tuple<NodeId, NodeId, EdgeId>;

Pair pair_of(NodeId u, NodeId v) { return {std::min(u, v), std::max(u, v)}; }

std::vector<Edge> edges_of(const CscGraph& lists) {
  std::vector<Edge> edges;
  for (NodeId v = 0; v < lists.num_nodes; ++v)
    for (Count e = lists.indptr[at(v)]; e < lists.indptr[at(v) + 1]; ++e)
      edges.emplace_back(lists.indices[at(e)], v, lists.edge_ids.empty() ? e : lists.edge_ids[at(e)]);
  return edges;
}

std::vector<Edge> edges_of(const HeldEdges& held) {
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < held.edge_ids.size(); ++i)
    edges.emplace_back(held.sources[i], held.destinations[i], held.edge_ids[i]);
  return edges;
}

std::set<Pair> pairs_of(const std::vector<Edge>& edges) {
  std::set<Pair> pairs;
  for (const auto& [u, v, edge] : edges) pairs.insert(pair_of(u, v));
  return pairs;
}

class SplitEdges : public testing::Test {
 protected:
  Graph split(Graph graph, const EdgeSplitOptions& options, std::uint64_t seed = 1) {
    ThreadPool pool(1);
    split_edges(graph, options, seed, pool);
    return graph;
  }

  /// A graph of one relation; undirected edges are listed once.
  Graph random_graph(bool undirected) {
    std::mt19937_64 random(4);
    std::string text;
    for (int e = 0; e < 5000; ++e)
      text += std::to_string(random() % 300) + " " + std::to_string(random() % 300) + "\n";
    test::write_text(folder_ / "edges.txt", text);
    const auto direction = undirected ? ReadOptions::Direction::undirected : ReadOptions::Direction::directed;
    return read_graph(Source("snap:" + (folder_ / "edges.txt").string()), {.direction = direction});
  }

  test::TemporaryFolder folder_;
};

TEST_F(SplitEdges, KeepsAllEdgesBetweenTwoNodesTogether) {
  const Graph whole = test::random_typed_graph({.papers = 400, .authors = 90, .weights = true});
  const Graph graph = split(test::random_typed_graph({.papers = 400, .authors = 90, .weights = true}),
                            {.valid = 0.2, .test = 0.1});
  const std::vector<Edge> all = edges_of(whole.structure), train = edges_of(graph.structure),
                          valid = edges_of(graph.edge_splits.valid), test = edges_of(graph.edge_splits.test);
  EXPECT_EQ(train.size() + valid.size() + test.size(), all.size());
  std::vector<Edge> joined(train);
  joined.insert(joined.end(), valid.begin(), valid.end());
  joined.insert(joined.end(), test.begin(), test.end());
  std::ranges::sort(joined);
  std::vector<Edge> expected(all);
  std::ranges::sort(expected);
  EXPECT_EQ(joined, expected);
  const std::set<Pair> of_train = pairs_of(train), of_valid = pairs_of(valid), of_test = pairs_of(test);
  for (const Pair& pair : of_valid) EXPECT_TRUE(!of_train.contains(pair) && !of_test.contains(pair));
  for (const Pair& pair : of_test) EXPECT_FALSE(of_train.contains(pair));
  const auto pairs = static_cast<double>(pairs_of(all).size());
  EXPECT_NEAR(static_cast<double>(of_valid.size()) / pairs, 0.2, 0.03);
  EXPECT_NEAR(static_cast<double>(of_test.size()) / pairs, 0.1, 0.03);
  EXPECT_TRUE(std::ranges::is_sorted(graph.edge_splits.valid.edge_ids));

  std::map<Edge, float> weights;
  for (std::size_t e = 0; e < all.size(); ++e) weights[all[e]] = whole.structure.weights[e];
  for (std::size_t e = 0; e < train.size(); ++e) EXPECT_EQ(graph.structure.weights[e], weights[train[e]]);
  EXPECT_EQ(graph.structure.sublists.begins.back(), std::ssize(train));
  EXPECT_EQ(edges_of(split(test::random_typed_graph({.papers = 400, .authors = 90, .weights = true}),
                           {.valid = 0.2, .test = 0.1})
                         .edge_splits.valid),
            valid);
  EXPECT_NE(edges_of(split(test::random_typed_graph({.papers = 400, .authors = 90, .weights = true}),
                           {.valid = 0.2, .test = 0.1}, 2)
                         .edge_splits.valid),
            valid);
}

TEST_F(SplitEdges, HoldsAnUndirectedEdgeOutOnce) {
  const Graph graph = split(random_graph(true), {.valid = 0.1, .test = 0.1});
  const std::set<Pair> train = pairs_of(edges_of(graph.structure));
  for (const auto& [u, v, edge] : edges_of(graph.edge_splits.test)) {
    EXPECT_LE(u, v);
    EXPECT_FALSE(train.contains({u, v}));
  }
  const std::vector<Edge> left = edges_of(graph.structure);
  std::set<Pair> directed;
  for (const auto& [u, v, edge] : left) directed.insert({u, v});
  for (const auto& [u, v] : directed) EXPECT_TRUE(directed.contains({v, u}));
  EXPECT_TRUE(graph.undirected);
}

TEST_F(SplitEdges, TakesThoseOfNamedRelationsAndTheirReverses) {
  const auto typed = [] { return test::random_typed_graph({}); };
  const Graph graph = split(typed(), {.valid = 0.3, .relations = {"paper__likes__paper"}});
  const RelationRanges ranges(graph.types);
  EXPECT_GT(graph.edge_splits.valid.size(), 10);
  for (const EdgeId edge : graph.edge_splits.valid.edge_ids) EXPECT_EQ(ranges.relation_of(edge), 2);
  expect_error<InputError>([&] { split(typed(), {.valid = 0.3, .relations = {"paper__hates__paper"}}); },
                           {"'paper__hates__paper'", "author__writes__paper"});
  expect_error<InputError>([&] { split(split(typed(), {.test = 0.3}), {.test = 0.3}); }, {"already"});
}

TEST_F(SplitEdges, TakesGivenEdgesAndTheirReverses) {
  test::write_text(folder_ / "edges.txt", "0 1\n1 0\n2 3\n3 2\n0 2\n");
  test::write_text(folder_ / "valid.csv", "0\n");
  test::write_text(folder_ / "test.csv", "3\n4\n");
  const auto read = [&] {
    return read_graph(Source("snap:" + (folder_ / "edges.txt").string()),
                      {.direction = ReadOptions::Direction::directed});
  };
  const Graph graph = split(read(), {.valid_ids = folder_ / "valid.csv", .test_ids = folder_ / "test.csv"});
  EXPECT_EQ(graph.structure.num_edges(), 0);
  EXPECT_EQ(edges_of(graph.edge_splits.valid), (std::vector<Edge>{{0, 1, 0}, {1, 0, 1}}));
  EXPECT_EQ(edges_of(graph.edge_splits.test), (std::vector<Edge>{{2, 3, 2}, {3, 2, 3}, {0, 2, 4}}));
  test::write_text(folder_ / "valid.csv", "3\n");
  expect_error<InputError>(
      [&] { split(read(), {.valid_ids = folder_ / "valid.csv", .test_ids = folder_ / "test.csv"}); },
      {"edge 3", "for validation and for test"});
  test::write_text(folder_ / "valid.csv", "5\n");
  expect_error<InputError>([&] { split(read(), {.valid_ids = folder_ / "valid.csv"}); },
                           {"valid.csv: edge 5", "0 to 4"});
  expect_error<InputError>([&] { split(test::random_typed_graph({}), {.valid_ids = folder_ / "valid.csv"}); },
                           {"of which relation", "--split-relation"});
}

}  // namespace
}  // namespace strata::graph
