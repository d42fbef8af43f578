// SPDX-License-Identifier: Apache-2.0
#include "random_walk.hpp"

#include <gtest/gtest.h>

#include <set>

#include "strata/sampling/sampler.hpp"
#include "strata/util/error.hpp"
#include "support/reference_sampler.hpp"

namespace example {
namespace {

using strata::Count;
using strata::NodeId;
using strata::test::PlainGraph;
using strata::test::ViewOwner;

/// Edges go from `sources[v]` to v.
PlainGraph graph_of(const std::vector<std::vector<NodeId>>& sources) {
  PlainGraph graph;
  for (std::size_t v = 0; v < sources.size(); ++v) {
    graph.original_ids.push_back(static_cast<NodeId>(v));
    for (const NodeId u : sources[v]) {
      graph.edge_ids.push_back(std::ssize(graph.indices));
      graph.indices.push_back(u);
    }
    graph.indptr.push_back(std::ssize(graph.indices));
  }
  return graph;
}

class Walks {
 public:
  Walks(const PlainGraph& graph, const RandomWalkOptions& options)
      : owner_(graph, {}), chooser_(owner_.view(), options, pool_) {}

  strata::sampling::ChosenNeighbors operator()(const std::vector<NodeId>& nodes, int fanout,
                                               std::uint32_t step = 0) {
    strata::sampling::ChosenNeighbors chosen;
    chooser_.choose({.nodes = nodes, .fanout = fanout, .key = {.seed = 3, .step = step}, .hop = 0}, chosen);
    return chosen;
  }

 private:
  ViewOwner owner_;
  strata::ThreadPool pool_{2};
  RandomWalkChooser chooser_;
};

TEST(RandomWalk, FollowsAChainAgainstTheEdges) {
  Walks walks(graph_of({{1}, {2}, {3}, {}}), {.num_walks = 4, .length = 3, .restart = 0});
  const auto chosen = walks({0, 2, 3}, -1);
  EXPECT_EQ(chosen.counts, (std::vector<Count>{3, 1, 0}));
  EXPECT_EQ(chosen.neighbors, (std::vector<NodeId>{1, 2, 3, 3}));
  EXPECT_EQ(walks({0}, 2).neighbors, (std::vector<NodeId>{1, 2})) << "ties go to lower original ids";
}

TEST(RandomWalk, PrefersWhatIsVisitedOften) {
  // Node 0 has the neighbors 1 (three parallel edges) and 2; both lead back to 0.
  Walks walks(graph_of({{1, 1, 1, 2}, {0}, {0}}), {.num_walks = 400, .length = 2, .restart = 0});
  EXPECT_EQ(walks({0}, 1).neighbors, (std::vector<NodeId>{1}));
  EXPECT_EQ(walks({0}, 5).neighbors, (std::vector<NodeId>{1, 2}));
}

TEST(RandomWalk, RestartsStayNear) {
  Walks always(graph_of({{1}, {2}, {3}, {}}), {.num_walks = 5, .length = 10, .restart = 1});
  EXPECT_EQ(always({0}, -1).neighbors, (std::vector<NodeId>{1}));
}

TEST(RandomWalk, NamesNoStartTwiceAndNothingFarAway) {
  const PlainGraph graph = strata::test::random_graph({.num_nodes = 500, .seed = 3});
  Walks walks(graph, {.num_walks = 20, .length = 1, .restart = 0});
  std::vector<NodeId> nodes = strata::test::random_nodes(500, 0, 500, 1);
  const auto chosen = walks(nodes, 6);
  Count next = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto v = static_cast<std::size_t>(nodes[i]);
    const std::set<NodeId> near(graph.indices.begin() + graph.indptr[v],
                                graph.indices.begin() + graph.indptr[v + 1]);
    std::set<NodeId> distinct;
    ASSERT_LE(chosen.counts[i], 6);
    for (Count j = 0; j < chosen.counts[i]; ++j, ++next) {
      const NodeId neighbor = chosen.neighbors[static_cast<std::size_t>(next)];
      EXPECT_TRUE(near.contains(neighbor));
      EXPECT_NE(neighbor, nodes[i]);
      EXPECT_TRUE(distinct.insert(neighbor).second);
    }
  }
}

/// Through the sampler, whatever the global ids and threads.
TEST(RandomWalk, SamplesTheSameBatchUnderOtherGlobalIds) {
  const PlainGraph graph = strata::test::random_graph({.num_nodes = 800, .seed = 5});
  const PlainGraph other = strata::test::renumbered(graph, 9);
  const auto global = strata::test::global_ids(other);
  const auto originals = [](const PlainGraph& g, const std::vector<NodeId>& seeds, int threads) {
    const ViewOwner owner(g, {});
    strata::ThreadPool pool(threads);
    const auto sampler = strata::sampling::make_sampler(
        owner.view(),
        {.fanouts = {5, 4},
         .chooser = std::make_shared<RandomWalkChooser>(owner.view(), RandomWalkOptions{}, pool),
         .max_seeds = 40},
        {}, 1, pool);
    const auto blocks = strata::test::plain_blocks(sampler->sample(seeds, {.seed = 1}, 0, {}), {});
    const auto& ids = blocks[0].src_original_ids;
    return std::set<NodeId>(ids.begin(), ids.end());
  };
  const auto seeds = strata::test::random_nodes(40, 0, 800, 2);
  std::vector<NodeId> renamed;
  for (const NodeId seed : seeds) renamed.push_back(global[static_cast<std::size_t>(seed)]);
  const auto expected = originals(graph, seeds, 1);
  EXPECT_GT(expected.size(), 100u);
  EXPECT_EQ(originals(other, renamed, 3), expected);
}

TEST(RandomWalk, RefusesWhatIsNoProbability) {
  const ViewOwner owner(graph_of({{}}), {});
  strata::ThreadPool pool(1);
  EXPECT_THROW(RandomWalkChooser(owner.view(), {.restart = 1.5}, pool), strata::InputError);
  EXPECT_THROW(RandomWalkChooser(owner.view(), {.num_walks = -1}, pool), strata::InputError);
}

}  // namespace
}  // namespace example
