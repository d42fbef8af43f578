// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <array>
#include <fstream>
#include <numeric>
#include <set>

#include "assign/metis_graph.hpp"
#include "random_graph.hpp"
#include "strata/partition/build.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace strata::partition {
namespace {

using test::expect_error;
using test::random_graph;
using test::RandomGraphOptions;

struct Case {
  CompactGraph graph;
  std::vector<NodeId> train;
};

Case make_case(const RandomGraphOptions& options, ThreadPool& pool) {
  graph::Graph graph = random_graph(options);
  CompactGraph compacted = compact(std::move(graph.structure), pool);
  compacted.node_weights = std::move(graph.node_weights);
  return {std::move(compacted), graph.splits.train};
}

std::vector<Count> loads(const std::vector<std::int32_t>& part_of, const std::vector<std::int32_t>& weights,
                         int num_parts) {
  std::vector<Count> sums(at(num_parts));
  for (std::size_t v = 0; v < part_of.size(); ++v) sums.at(at(part_of[v])) += weights[v];
  return sums;
}

double balance(const std::vector<Count>& loads) {
  const Count total = std::accumulate(loads.begin(), loads.end(), Count{0});
  return static_cast<double>(*std::max_element(loads.begin(), loads.end())) *
         static_cast<double>(loads.size()) / static_cast<double>(total);
}

Count cut_of(const CompactGraph& graph, const std::vector<std::int32_t>& part_of) {
  Count cut = 0;
  for (NodeId v = 0; v < graph.num_nodes; ++v) {
    for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v) + 1]; ++e) {
      cut += part_of[at(v)] != part_of[at(graph.indices.span()[e])];
    }
  }
  return cut;
}

class Assign : public testing::Test {
 protected:
  std::vector<std::int32_t> assign(const Case& c, const AssignOptions& options) {
    return assign_parts(c.graph, c.train, options, pool_);
  }
  ThreadPool pool_{2};
};

/// The plain reference of what METIS must get: distinct neighbors in either direction, without the node
/// itself.
std::vector<std::set<NodeId>> neighbors(const CompactGraph& graph) {
  std::vector<std::set<NodeId>> result(at(graph.num_nodes));
  for (NodeId v = 0; v < graph.num_nodes; ++v) {
    for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v) + 1]; ++e) {
      const NodeId u = graph.indices.span()[e];
      if (u == v) continue;
      result[at(v)].insert(u);
      result[at(u)].insert(v);
    }
  }
  return result;
}

class MetisInput : public testing::TestWithParam<RandomGraphOptions> {};

TEST_P(MetisInput, IsSymmetricAndSimple) {
  ThreadPool pool{2};
  const Case c = make_case(GetParam(), pool);
  const MetisGraph metis = make_metis_graph(c.graph, pool);
  const auto expected = neighbors(c.graph);
  ASSERT_EQ(metis.xadj.size(), expected.size() + 1);
  for (std::size_t v = 0; v < expected.size(); ++v) {
    const std::vector<NodeId> got(metis.adjncy + metis.xadj[v], metis.adjncy + metis.xadj[v + 1]);
    EXPECT_THAT(got, testing::ElementsAreArray(expected[v])) << "node " << v;
  }
  EXPECT_EQ(metis.lists.own_ids.empty(), GetParam().undirected && GetParam().clean)
      << "borrows exactly what needs no change";
}

INSTANTIATE_TEST_SUITE_P(Kinds, MetisInput,
                         testing::Values(RandomGraphOptions{.undirected = false, .clean = false},
                                         RandomGraphOptions{.undirected = false, .clean = true},
                                         RandomGraphOptions{.undirected = true, .clean = false},
                                         RandomGraphOptions{.undirected = true, .clean = true}));

TEST_F(Assign, MetisKeepsTheAskedBalanceAndCutsLessThanRandom) {
  const Case c = make_case({.num_nodes = 3000, .num_edges = 9000, .undirected = true}, pool_);
  const auto metis = assign(c, {.num_parts = 7});
  const auto random = assign(c, {.num_parts = 7, .method = PartitionMethod::random});
  const auto unit = weights_of(Constraint::nodes, c.graph, c.train);
  EXPECT_LE(balance(loads(metis, unit, 7)), 1.03 + 1e-9);
  EXPECT_LT(cut_of(c.graph, metis), cut_of(c.graph, random));
}

TEST_F(Assign, MetisKeepsEachOfSeveralConstraints) {
  const Case c = make_case({.num_nodes = 4000, .num_edges = 30000, .undirected = true}, pool_);
  for (const int parts : {2, 5, 8}) {
    const AssignOptions options{.num_parts = parts,
                                .balance = {Constraint::nodes, Constraint::edges, Constraint::train},
                                .imbalance = 0.05};
    const auto part_of = assign(c, options);
    for (const Constraint constraint : options.balance) {
      EXPECT_LE(balance(loads(part_of, weights_of(constraint, c.graph, c.train), parts)), 1.05 + 1e-9)
          << enum_name(constraint) << " in " << parts << " parts";
    }
  }
}

TEST_F(Assign, EveryMethodKeepsTheWeightsOfNodesIfAsked) {
  const Case c =
      make_case({.num_nodes = 3000, .num_edges = 12000, .undirected = true, .node_weight_kinds = 2}, pool_);
  const auto fullest = [&](const AssignOptions& options, int kind) {
    return balance(loads(assign(c, options), weights_of(Constraint::weights, c.graph, c.train, kind),
                         options.num_parts));
  };
  for (const PartitionMethod method :
       {PartitionMethod::metis, PartitionMethod::multilevel, PartitionMethod::automatic}) {
    AssignOptions options{.num_parts = 5, .method = method};
    EXPECT_GT(fullest(options, 0), 1.05) << enum_name(method);
    for (const auto& asked : {std::vector{Constraint::weights}, {Constraint::nodes, Constraint::weights}}) {
      options.balance = asked;
      for (const int kind : {0, 1})
        EXPECT_LE(fullest(options, kind), 1.03 + 1e-9) << enum_name(method) << ", kind " << kind;
    }
  }
}

TEST_F(Assign, RefusesToBalanceWeightsThatNodesDoNotHave) {
  const Case c = make_case({.num_nodes = 100}, pool_);
  for (const PartitionMethod method : {PartitionMethod::metis, PartitionMethod::automatic})
    expect_error([&] { assign(c, {.num_parts = 2, .method = method, .balance = {Constraint::weights}}); },
                 {"--balance weights", "have no weights", "node_weight.npy"});
}

TEST_F(Assign, RandomAndRangeGivePartsOfEqualSize) {
  const Case c = make_case({.num_nodes = 103}, pool_);
  for (const PartitionMethod method : {PartitionMethod::random, PartitionMethod::range}) {
    for (const int parts : {1, 2, 10, 103}) {
      const auto sizes =
          loads(assign(c, {.num_parts = parts, .method = method}), std::vector<std::int32_t>(103, 1), parts);
      EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()) - *std::min_element(sizes.begin(), sizes.end()),
                1);
    }
  }
  const auto range = assign(c, {.num_parts = 4, .method = PartitionMethod::range});
  EXPECT_TRUE(std::is_sorted(range.begin(), range.end()));
  EXPECT_NE(assign(c, {.num_parts = 4, .method = PartitionMethod::random, .seed = 1}),
            assign(c, {.num_parts = 4, .method = PartitionMethod::random, .seed = 2}));
}

TEST_F(Assign, OnePartAndOneNodeAPartWork) {
  const Case c = make_case({.num_nodes = 12, .num_edges = 30}, pool_);
  EXPECT_EQ(assign(c, {.num_parts = 1}), std::vector<std::int32_t>(12, 0));
  for (const std::int32_t part : assign(c, {.num_parts = 12})) EXPECT_TRUE(part >= 0 && part < 12);
}

// A path of nodes, few of which weigh something: METIS is content with parts that hold none.
TEST_F(Assign, NoPartIsEmptyWhereFewNodesHaveAllTheWeight) {
  for (const auto& [nodes, parts, heavy, kinds] :
       {std::array{40, 4, 1, 1}, {24, 5, 2, 2}, {17, 16, 0, 1}, {12, 12, 3, 1}, {60, 7, 60, 3}}) {
    graph::Graph graph;
    graph.structure.num_nodes = nodes;
    graph.structure.indptr = {0};
    for (Count v = 0; v < nodes; ++v) {
      for (const Count u : {v - 1, v + 1})
        if (u >= 0 && u < nodes) graph.structure.indices.push_back(u);
      graph.structure.indptr.push_back(std::ssize(graph.structure.indices));
    }
    Case c{compact(std::move(graph.structure), pool_), {}};
    c.graph.node_weights = {.kinds = kinds, .values = std::vector<std::int32_t>(at(Count{nodes} * kinds))};
    for (int v = 0; v < heavy; ++v) c.graph.node_weights.values[at(Count{v * 5 % nodes} * kinds)] = 90 + v;
    for (const PartitionMethod method : {PartitionMethod::metis, PartitionMethod::multilevel})
      for (const auto& asked : {std::vector{Constraint::weights}, {Constraint::nodes, Constraint::weights}}) {
        const auto part_of = assign(c, {.num_parts = parts, .method = method, .balance = asked});
        EXPECT_EQ(std::set(part_of.begin(), part_of.end()).size(), at(parts))
            << enum_name(method) << ", " << nodes << " nodes, " << parts << " parts";
      }
  }
}

TEST_F(Assign, RefusesMorePartsThanNodes) {
  const Case c = make_case({.num_nodes = 12, .num_edges = 30}, pool_);
  for (const PartitionMethod method :
       {PartitionMethod::metis, PartitionMethod::random, PartitionMethod::range, PartitionMethod::file}) {
    expect_error([&] { assign(c, {.num_parts = 13, .method = method}); },
                 {"13 parts", "12 nodes", "--parts"});
  }
}

TEST_F(Assign, ReadsFilesAsGpmetisWritesThem) {
  const Case c = make_case({.num_nodes = 10, .num_edges = 20}, pool_);
  const test::TemporaryFolder folder;
  const auto from = [&](const std::string& text) {
    std::ofstream{folder / "parts"} << text;
    return assign(c, {.num_parts = 3, .method = PartitionMethod::file, .file = folder / "parts"});
  };
  const std::vector<std::int32_t> expected{0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
  EXPECT_EQ(from("0\n1\n2\n0\n1\n2\n0\n1\n2\n0\n"), expected);
  EXPECT_EQ(from("0\r\n1\r\n2\r\n0\r\n1\r\n2\r\n0\r\n1\r\n2\r\n0"), expected);
  expect_error([&] { from("0\n1\n3\n"); }, {"line 3", "\"3\"", "[0, 3)"});
  expect_error([&] { from("0\n-1\n"); }, {"line 2", "\"-1\""});
  expect_error([&] { from("0\n1 1\n"); }, {"line 2", "\"1 1\""});
  expect_error([&] { from("0\n\n"); }, {"line 2"});
  expect_error([&] { from("0\n1\n"); }, {"2 lines", "10 nodes"});
  EXPECT_THROW(assign(c, {.num_parts = 3, .method = PartitionMethod::file, .file = folder / "none"}),
               InputError);
  EXPECT_THROW(assign(c, {.num_parts = 3, .method = PartitionMethod::file, .file = folder / "."}),
               InputError);
}

TEST(MetisLimits, AreThoseOfItsOwnProducts) {
  constexpr Count kMost = (Count{1} << 31) - 1;
  const MetisSize largest{.nodes = kMost / 4 - 1,
                          .entries = kMost / 2,
                          .most_neighbors = kMost / 10 - 1,
                          .weight = 2'000'000'000,
                          .imbalance = 0.03};
  check_metis_limits(largest, 32);
  check_metis_limits({.nodes = Count{1} << 40, .entries = Count{1} << 50}, 64);
  const auto expect_refused = [&](const std::function<void(MetisSize&)>& change, const std::string& what) {
    MetisSize size = largest;
    change(size);
    expect_error([&] { check_metis_limits(size, 32); }, {what, "32 bits", "--method random", "64-bit"});
  };
  expect_refused([](MetisSize& s) { ++s.nodes; }, "536,870,911 nodes, at most 536,870,910");
  expect_refused([](MetisSize& s) { ++s.entries; }, "1,073,741,824 neighbor entries");
  expect_refused([](MetisSize& s) { ++s.most_neighbors; }, "214,748,364 neighbors of one node");
  expect_refused([](MetisSize& s) { s.imbalance = 0.08; }, "2,160,000,000 of weight");
}

TEST_F(Assign, RebalanceBringsEveryPartBelowItsLimitOrStops) {
  const Case c = make_case({.num_nodes = 100, .num_edges = 400}, pool_);
  const std::vector<std::vector<std::int32_t>> unit{std::vector<std::int32_t>(100, 1)};
  std::vector<std::int32_t> part_of(100, 0);
  EXPECT_EQ(rebalance(c.graph, unit, {26}, 4, part_of), 74);
  for (const Count load : loads(part_of, unit[0], 4)) EXPECT_LE(load, 26);
  std::vector<std::int32_t> impossible(100, 0);
  EXPECT_EQ(rebalance(c.graph, unit, {20}, 4, impossible), 60)
      << "three parts take 20 each; then nothing can move";
}

TEST(CompactGraph, RefusesListsThatAreNotListsOfThisGraph) {
  ThreadPool pool{1};
  const auto make = [&](std::vector<Count> indptr, std::vector<NodeId> indices) {
    graph::CscGraph csc;
    csc.num_nodes = 2;
    csc.indptr = std::move(indptr);
    csc.indices = std::move(indices);
    return compact(std::move(csc), pool);
  };
  EXPECT_EQ(make({0, 1, 3}, {1, 0, 1}).num_edges(), 3);
  EXPECT_THROW(make({0, 1, 3}, {2, 0, 1}), InputError);
  EXPECT_THROW(make({0, 1, 3}, {-1, 0, 1}), InputError);
  EXPECT_THROW(make({0, 1, 3}, {1, 1, 0}), InputError);
  EXPECT_THROW(make({0, 2, 1}, {1}), InputError);
  EXPECT_THROW(make({0, 1}, {1}), InputError);
}

}  // namespace
}  // namespace strata::partition
