// SPDX-License-Identifier: Apache-2.0
#include "multilevel/multilevel.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "assign/balance.hpp"
#include "multilevel/balance_level.hpp"
#include "multilevel/contract.hpp"
#include "multilevel/initial.hpp"
#include "multilevel/jet.hpp"
#include "multilevel/local_search.hpp"
#include "random_graph.hpp"
#include "strata/partition/build.hpp"
#include "support/expect_error.hpp"

namespace strata::partition {
namespace {

using Parts = std::vector<std::int32_t>;
using Neighbors = std::vector<std::map<std::int32_t, std::uint32_t>>;  // by node: neighbor -> weight

LevelGraph to_level(const Neighbors& neighbors) {
  LevelGraph graph;
  graph.num_nodes = std::ssize(neighbors);
  graph.own_begin = {0};
  for (const auto& list : neighbors) {
    for (const auto& [id, weight] : list) {
      graph.own_ids.push_back(id);
      graph.own_edge_weights.push_back(weight);
    }
    graph.own_begin.push_back(std::ssize(graph.own_ids));
  }
  graph.use_own_lists();
  return graph;
}

/// A graph with skewed degrees, weights up to 9, and a tenth of the nodes without neighbors.
LevelGraph random_level(Count nodes, Count edges, std::uint64_t seed) {
  Neighbors neighbors(at(nodes));
  const graph::Graph random = test::random_graph({.num_nodes = nodes,
                                                  .num_edges = edges,
                                                  .undirected = true,
                                                  .clean = true,
                                                  .feature_cols = 0,
                                                  .seed = seed});
  for (NodeId v = 0; v < nodes; ++v) {
    for (Count e = random.structure.indptr[at(v)]; e < random.structure.indptr[at(v + 1)]; ++e) {
      const auto weight = static_cast<std::uint32_t>(random.structure.edge_ids[at(e)] % 9 + 1);
      neighbors[at(v)][static_cast<std::int32_t>(random.structure.indices[at(e)])] = weight;
    }
  }
  return to_level(neighbors);
}

Count plain_cut(const LevelGraph& graph, const Parts& parts) {
  Count cut = 0;
  for (Count v = 0; v < graph.num_nodes; ++v)
    for (Count e = graph.begin[v]; e < graph.begin[v + 1]; ++e)
      if (graph.ids[e] > v && parts[at(v)] != parts[at(graph.ids[e])]) cut += graph.edge_weight(e);
  return cut;
}

Parts modulo(Count nodes, int parts) {
  Parts result(at(nodes));
  for (std::size_t v = 0; v < result.size(); ++v) result[v] = static_cast<std::int32_t>(v) % parts;
  return result;
}

TEST(Cluster, KeepsLimitsAndGroupsForEveryNumberOfThreads) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const LevelGraph graph = random_level(3000, 12000, seed);
    const Parts within = modulo(graph.num_nodes, 3);
    ThreadPool one{1}, three{3};
    const ClusterOptions options{.limits = {7}, .seed = seed, .within = &within};
    const Clusters clusters = cluster(graph, options, one);
    EXPECT_EQ(clusters.of_node, cluster(graph, options, three).of_node) << "seed " << seed;
    std::vector<Count> sizes(at(clusters.count));
    std::vector<std::set<std::int32_t>> groups(at(clusters.count));
    for (std::size_t v = 0; v < clusters.of_node.size(); ++v) {
      ++sizes.at(at(clusters.of_node[v]));
      groups[at(clusters.of_node[v])].insert(within[v]);
    }
    EXPECT_THAT(sizes, testing::Each(testing::AllOf(testing::Ge(1), testing::Le(7)))) << "seed " << seed;
    EXPECT_THAT(groups, testing::Each(testing::SizeIs(1))) << "seed " << seed;
    EXPECT_LT(clusters.count, graph.num_nodes / 2) << "seed " << seed;
  }
}

TEST(Cluster, JoinsLeavesOfStarsAndNodesWithoutNeighbors) {
  Neighbors star(1000);
  for (std::int32_t leaf = 1; leaf < 500; ++leaf) star[0][leaf] = star[at(leaf)][0] = 1;
  ThreadPool pool{2};
  const Clusters clusters = cluster(to_level(star), {.limits = {10}}, pool);
  EXPECT_LE(clusters.count, 102);
}

TEST(Contract, KeepsWeightsAndCuts) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const LevelGraph graph = random_level(2500, 9000, seed);
    ThreadPool one{1}, three{3};
    const Clusters clusters = cluster(graph, {.limits = {5}, .seed = seed}, one);
    const LevelGraph coarse = contract(graph, clusters, one), same = contract(graph, clusters, three);
    EXPECT_EQ(coarse.own_ids, same.own_ids);
    EXPECT_EQ(coarse.own_edge_weights, same.own_edge_weights);
    EXPECT_EQ(total_weights(coarse), total_weights(graph));
    const Parts parts = modulo(coarse.num_nodes, 4);
    Parts fine(at(graph.num_nodes));
    for (std::size_t v = 0; v < fine.size(); ++v) fine[v] = parts[at(clusters.of_node[v])];
    EXPECT_EQ(plain_cut(coarse, parts), plain_cut(graph, fine)) << "seed " << seed;
    for (Count v = 0; v < coarse.num_nodes; ++v) {
      const std::set<std::int32_t> distinct(coarse.ids + coarse.begin[v], coarse.ids + coarse.begin[v + 1]);
      EXPECT_EQ(std::ssize(distinct), coarse.degree(v));
      EXPECT_FALSE(distinct.contains(static_cast<std::int32_t>(v)));
    }
  }
}

TEST(BalanceLevel, BringsEveryPartWithinItsLimit) {
  const LevelGraph graph = random_level(1000, 5000, 4);
  ThreadPool one{1}, three{3};
  Parts parts(1000, 0), again(1000, 0);
  Loads loads{graph, parts, 4, {260}}, again_loads{graph, again, 4, {260}};
  const auto moved = balance_level(graph, loads, parts, one);
  balance_level(graph, again_loads, again, three);
  EXPECT_EQ(moved.size(), 740u);
  EXPECT_FALSE(loads.any_is_over());
  EXPECT_EQ(parts, again);
}

TEST(RefineJet, NeverCutsMoreAndReportsTheCut) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const LevelGraph graph = random_level(2000, 8000, seed);
    ThreadPool one{1}, three{3};
    Parts parts = modulo(graph.num_nodes, 5), again = parts;
    const Count before = plain_cut(graph, parts);
    Loads loads{graph, parts, 5, {412}}, again_loads{graph, again, 5, {412}};
    const Count cut = refine_jet(graph, loads, parts, {}, one);
    refine_jet(graph, again_loads, again, {}, three);
    EXPECT_EQ(parts, again) << "seed " << seed;
    EXPECT_EQ(cut, plain_cut(graph, parts)) << "seed " << seed;
    EXPECT_EQ(cut, cut_of(graph, parts, three)) << "seed " << seed;
    EXPECT_LT(cut, before) << "seed " << seed;
    EXPECT_FALSE((Loads{graph, parts, 5, {412}}.any_is_over())) << "seed " << seed;
  }
}

TEST(LocalSearch, SavesWhatItReportsWithinTheLimits) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const LevelGraph graph = random_level(2000, 8000, seed);
    Parts parts = modulo(graph.num_nodes, 6);
    const Count before = plain_cut(graph, parts);
    Loads loads{graph, parts, 6, {344}};
    const Count saved = search_locally(graph, loads, parts, {.seed = seed});
    EXPECT_GT(saved, 0) << "seed " << seed;
    EXPECT_EQ(before - saved, plain_cut(graph, parts)) << "seed " << seed;
    EXPECT_FALSE((Loads{graph, parts, 6, {344}}.any_is_over())) << "seed " << seed;
  }
}

TEST(InitialParts, TakesWeightsBeyond32Bits) {
  LevelGraph graph = random_level(300, 1500, 5);
  graph.node_weights.assign(300, Count{1} << 40);
  for (std::uint32_t& weight : graph.own_edge_weights) weight = 4'000'000'000u;
  const Parts parts = initial_parts(graph, {.num_parts = 3});
  const Loads loads{graph, parts, 3, {(Count{1} << 40) * 110}};
  EXPECT_FALSE(loads.any_is_over());
}

/// What every partition must be, for graphs of all shapes.
class Multilevel : public testing::Test {
 protected:
  void expect_sound(const CompactGraph& graph, const std::vector<NodeId>& train, AssignOptions options) {
    ThreadPool one{1}, three{3};
    const Parts parts = assign_parts(graph, train, options, one);
    ASSERT_EQ(std::ssize(parts), graph.num_nodes);
    std::vector<Count> sizes(at(options.num_parts));
    for (const std::int32_t part : parts) ++sizes.at(at(part));
    EXPECT_THAT(sizes, testing::Each(testing::Gt(0)));
    EXPECT_EQ(parts, assign_parts(graph, train, options, three)) << "three threads";
    const Weights weights = usable_weights(graph, train, options);
    const std::vector<Count> limits = limits_of(weights, options);
    for (std::size_t c = 0; c < weights.size(); ++c) {
      std::vector<Count> loads(at(options.num_parts));
      for (std::size_t v = 0; v < parts.size(); ++v) loads[at(parts[v])] += weights[c][v];
      EXPECT_THAT(loads, testing::Each(testing::Le(limits[c]))) << "constraint " << c;
    }
  }

  CompactGraph from_edges(Count nodes, const std::vector<std::pair<NodeId, NodeId>>& edges) {
    std::vector<std::set<NodeId>> lists(at(nodes));
    for (const auto& [u, v] : edges) {
      lists[at(u)].insert(v);
      lists[at(v)].insert(u);
    }
    graph::CscGraph csc;
    csc.num_nodes = nodes;
    csc.indptr = {0};
    for (const auto& list : lists) {
      csc.indices.insert(csc.indices.end(), list.begin(), list.end());
      csc.indptr.push_back(std::ssize(csc.indices));
    }
    ThreadPool pool{1};
    return compact(std::move(csc), pool);
  }
};

TEST_F(Multilevel, IsSoundOnRandomGraphs) {
  ThreadPool pool{1};
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    graph::Graph random = test::random_graph({.num_nodes = 2500,
                                              .num_edges = 8000,
                                              .undirected = seed % 2 == 0,
                                              .feature_cols = 0,
                                              .labels = false,
                                              .seed = seed});
    const CompactGraph graph = compact(std::move(random.structure), pool);
    for (const PartitionMethod method : {PartitionMethod::automatic, PartitionMethod::multilevel}) {
      SCOPED_TRACE(testing::Message() << enum_name(method) << ", seed " << seed);
      expect_sound(graph, random.splits.train,
                   {.num_parts = 2 + 9 * static_cast<int>(seed), .method = method, .seed = seed});
    }
    SCOPED_TRACE(testing::Message() << "all constraints, seed " << seed);
    expect_sound(graph, random.splits.train,
                 {.num_parts = 1 + static_cast<int>(seed),
                  .method = PartitionMethod::multilevel,
                  .balance = {Constraint::nodes, Constraint::edges, Constraint::train},
                  .imbalance = 0.05,
                  .seed = seed});
  }
}

TEST_F(Multilevel, IsSoundOnStarsChainsCliquesAndNodesWithoutEdges) {
  using Edges = std::vector<std::pair<NodeId, NodeId>>;
  Edges star, chain, cliques;
  for (NodeId v = 1; v < 4000; ++v) star.push_back({0, v});
  for (NodeId v = 1; v < 4000; ++v) chain.push_back({v - 1, v});
  for (NodeId v = 0; v < 4000; ++v)
    for (NodeId u = v / 20 * 20; u < v; ++u) cliques.push_back({u, v});
  const std::map<std::string, Edges> shapes{
      {"star", star}, {"chain", chain}, {"cliques", cliques}, {"none", {}}};
  for (const auto& [name, edges] : shapes) {
    SCOPED_TRACE(name);
    expect_sound(from_edges(4000, edges), {}, {.num_parts = 7, .method = PartitionMethod::multilevel});
  }
}

TEST_F(Multilevel, CutsNothingBetweenComponentsThatFillParts) {
  std::vector<std::pair<NodeId, NodeId>> edges;
  for (NodeId v = 0; v < 4000; ++v) edges.push_back({v, v / 1000 * 1000 + (v + 1) % 1000});
  const CompactGraph graph = from_edges(4000, edges);
  ThreadPool pool{2};
  const Parts parts = assign_parts(graph, {}, {.num_parts = 4, .imbalance = 0.001}, pool);
  for (NodeId v = 0; v < 4000; ++v) EXPECT_EQ(parts[at(v)], parts[at(v / 1000 * 1000)]) << v;
}

// METIS would take minutes: the square of the number of components.
TEST_F(Multilevel, DealsNodesWithoutNeighborsAndSmallComponentsWithoutMetis) {
  constexpr NodeId kCore = 3000, kNodes = 300'000;
  std::vector<std::pair<NodeId, NodeId>> edges;
  for (NodeId v = 0; v < kCore; ++v)
    for (const NodeId step : {1, 2, 40}) edges.push_back({v, (v + step) % kCore});
  for (NodeId v = kCore; v < kNodes / 2; v += 2) edges.push_back({v, v + 1});
  const CompactGraph graph = from_edges(kNodes, edges);
  for (const PartitionMethod method : {PartitionMethod::automatic, PartitionMethod::metis}) {
    SCOPED_TRACE(enum_name(method));
    expect_sound(graph, {}, {.num_parts = 3, .method = method});
    expect_sound(graph, {},
                 {.num_parts = 4, .method = method, .balance = {Constraint::nodes, Constraint::edges}});
    ThreadPool pool{2};
    const Parts parts = assign_parts(graph, {}, {.num_parts = 3, .method = method}, pool);
    for (NodeId v = kCore; v < kNodes / 2; v += 2) ASSERT_EQ(parts[at(v)], parts[at(v + 1)]) << v;
  }
}

TEST_F(Multilevel, AutoCutsAtMostWhatMetisDoes) {
  ThreadPool pool{2};
  for (const std::uint64_t seed : {1u, 2u}) {
    graph::Graph random = test::random_graph(
        {.num_nodes = 2500, .num_edges = 15000, .undirected = true, .clean = true, .seed = seed});
    const CompactGraph graph = compact(std::move(random.structure), pool);
    const auto cut = [&](PartitionMethod method, std::uint64_t key) {
      const Parts parts = assign_parts(graph, {}, {.num_parts = 2, .method = method, .seed = key}, pool);
      Count cut = 0;
      for (NodeId v = 0; v < graph.num_nodes; ++v)
        for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v + 1)]; ++e)
          cut += parts[at(v)] != parts[at(graph.indices.span()[e])];
      return cut;
    };
    Count metis = cut(PartitionMethod::metis, 0);
    for (const std::uint64_t key : {1u, 2u, 3u, 4u})
      metis = std::min(metis, cut(PartitionMethod::metis, key));
    EXPECT_LE(cut(PartitionMethod::automatic, 0), metis) << "seed " << seed;
  }
}

/// A chain of cliques of 25 nodes: 3200 nodes, of which consecutive ones belong together.
class Regroup : public Multilevel {
 protected:
  static constexpr Count kNodes = 3200;

  CompactGraph cliques() {
    std::vector<std::pair<NodeId, NodeId>> edges;
    for (NodeId v = 0; v < kNodes; ++v) {
      if (v > 0) edges.push_back({v - 1, v});
      for (NodeId u = v / 25 * 25; u < v; ++u) edges.push_back({u, v});
    }
    return from_edges(kNodes, edges);
  }
  /// Part p has every eighth run of 100 nodes if `mixed`, else 400 that follow each other.
  std::shared_ptr<const GivenParts> eight_parts(bool mixed) {
    GivenParts given{8, Parts(at(kNodes))};
    for (std::size_t v = 0; v < given.of_node.size(); ++v)
      given.of_node[v] = static_cast<std::int32_t>(mixed ? v / 100 % 8 : v / 400);
    return std::make_shared<const GivenParts>(std::move(given));
  }
};

TEST_F(Regroup, MergeJoinsWholePartsThatShareEdges) {
  const CompactGraph graph = cliques();
  ThreadPool pool{2};
  for (const int parts : {1, 2, 4, 8}) {
    const auto given = eight_parts(false);
    const Parts merged =
        assign_parts(graph, {}, {.num_parts = parts, .method = PartitionMethod::merge, .given = given}, pool);
    std::set<std::pair<std::int32_t, std::int32_t>> pairs;
    for (std::size_t v = 0; v < merged.size(); ++v) pairs.insert({given->of_node[v], merged[v]});
    EXPECT_EQ(pairs.size(), 8u) << parts << " parts";
    int cuts = 0;
    for (std::size_t v = 1; v < merged.size(); ++v) cuts += merged[v] != merged[v - 1];
    EXPECT_EQ(cuts, parts - 1) << parts << " parts";
  }
}

TEST_F(Regroup, SplitKeepsTheBordersThatThereAreAndTheLimits) {
  const CompactGraph graph = cliques();
  ThreadPool pool{2};
  for (const bool mixed : {false, true}) {
    const auto given = eight_parts(mixed);
    const Parts split =
        assign_parts(graph, {}, {.num_parts = 24, .method = PartitionMethod::split, .given = given}, pool);
    std::vector<Count> sizes(24);
    for (std::size_t v = 0; v < split.size(); ++v) {
      EXPECT_EQ(split[v] / 3, given->of_node[v]);
      ++sizes.at(at(split[v]));
    }
    EXPECT_THAT(sizes, testing::Each(testing::AllOf(testing::Gt(0), testing::Le(3200 * 103 / 2400))));
  }
}

TEST_F(Regroup, SplitIntoOneEachChangesNothing) {
  const CompactGraph graph = cliques();
  ThreadPool pool{2};
  const auto given = eight_parts(true);
  EXPECT_EQ(assign_parts(graph, {}, {.num_parts = 8, .method = PartitionMethod::split, .given = given}, pool),
            given->of_node);
}

// No piece is larger than its part makes necessary, and none is empty.
TEST_F(Regroup, SplitCutsUnevenPartsEvenly) {
  const CompactGraph graph = cliques();
  ThreadPool pool{2};
  GivenParts uneven{2, Parts(at(kNodes), 1)};
  uneven.of_node[0] = 0;
  const auto given = std::make_shared<const GivenParts>(std::move(uneven));
  for (const int parts : {4, 100}) {
    const Parts split =
        assign_parts(graph, {}, {.num_parts = parts, .method = PartitionMethod::split, .given = given}, pool);
    std::vector<Count> sizes(at(parts));
    for (const std::int32_t part : split) ++sizes.at(at(part));
    EXPECT_THAT(sizes,
                testing::Each(testing::AllOf(testing::Gt(0), testing::Le(3199 * 2 * 103 / 100 / parts))))
        << parts << " parts";
  }
}

// Given parts without nodes, as METIS of other programs makes: the others stay whole, and no new one is
// empty.
TEST_F(Regroup, MergeLeavesPartsWholeWhereSomeAreEmpty) {
  const CompactGraph graph = cliques();
  ThreadPool pool{2};
  for (const int filled : {2, 3, 5}) {
    GivenParts some{8, Parts(at(kNodes))};
    for (std::size_t v = 0; v < some.of_node.size(); ++v)
      some.of_node[v] =
          v < at(kNodes - 100 * (filled - 1)) ? 6 : static_cast<std::int32_t>(v % at(filled - 1));
    const auto given = std::make_shared<const GivenParts>(std::move(some));
    const auto merge = [&](int parts) {
      return assign_parts(graph, {}, {.num_parts = parts, .method = PartitionMethod::merge, .given = given},
                          pool);
    };
    const Parts merged = merge(2);
    std::set<std::pair<std::int32_t, std::int32_t>> pairs;
    for (std::size_t v = 0; v < merged.size(); ++v) pairs.insert({given->of_node[v], merged[v]});
    EXPECT_EQ(pairs.size(), at(filled));
    EXPECT_EQ(std::set(merged.begin(), merged.end()).size(), 2u);
    test::expect_error<InputError>([&] { merge(8); },
                                   {"only " + std::to_string(filled) + " of the 8 parts hold nodes"});
  }
}

TEST_F(Regroup, RefusesNumbersThatDoNotFit) {
  const CompactGraph graph = cliques();
  ThreadPool pool{1};
  const auto assign = [&](int parts, PartitionMethod method) {
    assign_parts(graph, {}, {.num_parts = parts, .method = method, .given = eight_parts(false)}, pool);
  };
  test::expect_error([&] { assign(3, PartitionMethod::merge); }, {"8 parts", "merged to 3", "divisor of 8"});
  test::expect_error([&] { assign(16, PartitionMethod::merge); }, {"merged to 16"});
  test::expect_error([&] { assign(12, PartitionMethod::split); },
                     {"8 parts", "split into 12", "multiple of 8"});
  test::expect_error([&] { assign(4, PartitionMethod::split); }, {"split into 4"});
}

}  // namespace
}  // namespace strata::partition
