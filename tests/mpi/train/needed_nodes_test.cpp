// SPDX-License-Identifier: Apache-2.0
#include "evaluation/needed_nodes.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "evaluation/node_chunks.hpp"
#include "support/mpi_world.hpp"

namespace strata::train {
namespace {

constexpr Count kNodes = 1000;

/// The same on all ranks; a rank sees the lists of its part of the nodes, as a machine of its own.
struct RandomGraph {
  std::vector<std::vector<NodeId>> lists;
  std::vector<NodeId> machine_offsets;
  std::vector<Count> indptr{0};
  std::vector<std::int64_t> indices;
  store::GraphView view;

  explicit RandomGraph(std::uint64_t seed) : lists(kNodes) {
    std::mt19937_64 random(seed);
    for (auto& list : lists) {
      for (std::uint64_t k = random() % 4; k > 0; --k) list.push_back(static_cast<NodeId>(random() % kNodes));
    }
    const int ranks = test::world().size(), rank = test::world().rank();
    for (int r = 0; r <= ranks; ++r) machine_offsets.push_back(kNodes * r / ranks);
    const NodeId first = machine_offsets[at(rank)], last = machine_offsets[at(rank) + 1];
    for (NodeId v = first; v < last; ++v) {
      const auto& list = lists[at(v)];
      indices.insert(indices.end(), list.begin(), list.end());
      indptr.push_back(std::ssize(indices));
    }
    view.num_nodes = kNodes;
    view.first_node = first;
    view.num_local = last - first;
    view.indptr = indptr.data();
    view.indices = {.data = indices.data(), .size = std::ssize(indices), .wide = true};
  }
  std::set<NodeId> with_neighbors(std::set<NodeId> nodes) const {
    for (const NodeId v : std::set<NodeId>(nodes)) {
      const auto& list = lists[at(v)];
      nodes.insert(list.begin(), list.end());
    }
    return nodes;
  }
};

std::set<NodeId> members_of(const NodeSet& set) {
  std::set<NodeId> members;
  for (NodeId v = 0; v < kNodes; ++v)
    if (set.contains(v)) members.insert(v);
  return members;
}

NeededNodes needed_of(const RandomGraph& graph, const std::set<NodeId>& scored, double most) {
  ThreadPool pool(2);
  return find_needed_nodes({.communicator = &test::world().communicator(),
                            .graph = &graph.view,
                            .num_layers = 3,
                            .most = most,
                            .pool = &pool,
                            .for_scored = [&](const std::function<void(NodeId)>& visit) {
                              for (const NodeId v : scored)
                                if (graph.view.owns(v)) visit(v);
                            }});
}

TEST(NeededNodes, AreTheScoredOnesAndWhatTheyDependOn) {
  const RandomGraph graph(3);
  const std::set<NodeId> scored{0, 7, 63, 64, 500, 999};
  const NeededNodes needed = needed_of(graph, scored, 1.0);
  ASSERT_EQ(needed.size(), 3u);
  EXPECT_EQ(members_of(*needed[2]), scored);
  EXPECT_EQ(members_of(*needed[1]), graph.with_neighbors(scored));
  EXPECT_EQ(members_of(*needed[0]), graph.with_neighbors(graph.with_neighbors(scored)));
}

TEST(NeededNodes, AreAllFromWhereTheyAreMany) {
  const RandomGraph graph(3);
  const NeededNodes needed = needed_of(graph, {0, 7, 63, 64, 500, 999}, 0.01);
  EXPECT_NE(needed[2], nullptr);
  EXPECT_EQ(needed[1], nullptr);
  EXPECT_EQ(needed[0], nullptr);
  for (const auto& set : needed_of(graph, {}, 0.5)) EXPECT_EQ(set->size(), 0);
}

TEST(NodeSet, RanksItsMembers) {
  std::mt19937_64 random(5);
  NodeSet set(kNodes);
  std::set<NodeId> naive;
  for (int i = 0; i < 300; ++i) {
    const auto node = static_cast<NodeId>(random() % kNodes);
    naive.insert(node);
    if (i % test::world().size() == test::world().rank()) set.insert(node);
  }
  set.unite(test::world().communicator());
  const std::vector<NodeId> members(naive.begin(), naive.end());
  ASSERT_EQ(set.size(), std::ssize(members));
  EXPECT_EQ(set.rank(kNodes), set.size());
  for (Count r = 0; r < set.size(); ++r) {
    ASSERT_EQ(set.node_of(r), members[at(r)]);
    ASSERT_EQ(set.rank(set.node_of(r)), r);
  }
  std::vector<NodeId> visited, ranks(members.size());
  set.for_ranks(10, 200, [&](NodeId node) { visited.push_back(node); });
  EXPECT_EQ(visited, std::vector<NodeId>(members.begin() + 10, members.begin() + 200));
  ThreadPool pool(1);
  RankLookup(set, {}).find(members.data(), set.size(), ranks.data(), {}, pool);
  for (Count r = 0; r < set.size(); ++r) EXPECT_EQ(ranks[at(r)], r);
}

TEST(LayerNodes, OfASetAreItsMembersOnTheMachine) {
  const RandomGraph graph(4);
  NodeSet set(kNodes);
  for (NodeId v = 0; v < kNodes; v += 3) set.insert(v);
  set.unite(test::world().communicator());
  const LayerNodes nodes(graph.view, &set, graph.machine_offsets);
  const std::vector<NodeId> offsets = nodes.machine_offsets();
  EXPECT_EQ(offsets.back(), set.size());
  std::vector<NodeId> listed, chunk_nodes;
  Count next_row = 0;
  for (int part = 0; part < 2; ++part) {
    for (const NodeChunk& chunk : nodes.cut(part, 2, {.node_bytes = 1, .edge_bytes = 1}, {100, 20})) {
      EXPECT_EQ(chunk.first_row, next_row);
      next_row += chunk.count;
      nodes.list(chunk, chunk_nodes);
      EXPECT_EQ(chunk_nodes.front(), chunk.first);
      listed.insert(listed.end(), chunk_nodes.begin(), chunk_nodes.end());
    }
  }
  EXPECT_EQ(next_row, nodes.rows());
  std::vector<NodeId> expected;
  for (NodeId v = 0; v < kNodes; v += 3)
    if (graph.view.owns(v)) expected.push_back(v);
  EXPECT_EQ(listed, expected);
  const auto rank = at(test::world().rank());
  EXPECT_EQ(offsets[rank + 1] - offsets[rank], nodes.rows());
}

}  // namespace
}  // namespace strata::train
