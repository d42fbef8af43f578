// SPDX-License-Identifier: Apache-2.0
#include "support/methods.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "strata/util/error.hpp"
#include "support/excluded_entries.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::MethodCase;
using test::PlainBlock;
using test::PlainGraph;
using test::ViewOwner;

class EveryMethod : public testing::TestWithParam<MethodCase> {
 protected:
  static std::vector<PlainBlock> sample(const PlainGraph& graph, const SamplerOptions& options,
                                        const std::vector<NodeId>& seeds, const BatchKey& key) {
    const ViewOwner owner(graph, {});
    ThreadPool pool(2);
    return test::plain_blocks(make_sampler(owner.view(), options, {}, 1, pool)->sample(seeds, key, 0, {}),
                              {});
  }

  /// Samples batches of the graph's 3,000 nodes, one without seeds, into two buffers.
  static void expect_reference_batches(const PlainGraph& graph, const SamplerOptions& options, bool wide,
                                       std::uint64_t seed) {
    const ViewOwner owner(graph, {.wide = wide});
    ThreadPool pool(wide ? 1 : 3);
    const auto sampler = make_sampler(owner.view(), options, {}, 2, pool);
    for (std::uint32_t step = 0; step < 4; ++step) {
      const BatchKey key{.seed = seed, .epoch = 3, .step = step};
      const auto seeds = test::random_nodes(step == 1 ? 0 : 20 + 680 * (step % 2), 0, 3000, step);
      const MiniBatch batch = sampler->sample(seeds, key, static_cast<int>(step % 2), {});
      test::expect_equal(test::plain_blocks(batch, {}), test::reference_blocks(graph, seeds, options, key));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod, testing::ValuesIn(test::all_methods()),
                         testing::PrintToStringParamName());

TEST_P(EveryMethod, EqualsTheReferenceOnRandomGraphs) {
  std::uint64_t seed = 0;
  for (const auto& fanouts : {std::vector<int>{5, 3, 2}, {1}, {-1, 4}, {3, -1}, {2, 0, 3}, {40, 2}}) {
    for (const bool wide : {false, true}) {
      SCOPED_TRACE("seed " + std::to_string(++seed));
      PlainGraph graph =
          test::renumbered(test::random_graph({.num_nodes = 3000, .hub_degree = 4000, .seed = seed}), seed);
      graph.relation = static_cast<std::uint16_t>(seed % 3);
      expect_reference_batches(graph, GetParam().options(fanouts, 700), wide, seed);
    }
  }
}

TEST_P(EveryMethod, ChoosesForEachRelation) {
  std::uint64_t seed = 0;
  for (const int relations : {1, 2, 7, 400}) {
    for (const bool wide : {false, true}) {
      SCOPED_TRACE("seed " + std::to_string(++seed));
      const PlainGraph plain = test::random_graph({.num_nodes = 3000, .hub_degree = 4000, .seed = seed});
      const PlainGraph graph = test::renumbered(test::typed(plain, relations, seed), seed);
      SamplerOptions options = GetParam().options({5, -1, 3}, 700);
      const auto each = at(relations);
      options.relation_fanouts = {std::vector(each, 5), std::vector(each, 2), std::vector(each, 3)};
      options.relation_fanouts[1].back() = -1;
      options.relation_fanouts[2].front() = relations > 1 ? 0 : 3;
      expect_reference_batches(graph, options, wide, seed);
    }
  }
}

/// Lists then fill their fanout, and those without excluded entries have the same picks as ever.
TEST_P(EveryMethod, ChoosesAsIfExcludedEntriesWereNotThere) {
  const PlainGraph plain = test::random_graph({.num_nodes = 2000, .hub_degree = 4000, .seed = 9});
  ThreadPool pool(2);
  for (const int relations : {1, 5}) {
    const PlainGraph graph = relations == 1 ? plain : test::typed(plain, relations, 3);
    const std::vector<Count> excluded = test::some_entries(graph, 4);
    const ViewOwner all(graph, {}), rest(test::without(graph, excluded), {});
    for (const auto& fanouts : {std::vector<int>{5, 3}, {-1, 2}, {40, 2}, {1, 0}}) {
      SCOPED_TRACE(testing::PrintToString(fanouts) + " over " + std::to_string(relations) + " relations");
      SamplerOptions options = GetParam().options(fanouts, 700);
      options.in_degrees = false;
      const auto expected = make_sampler(rest.view(), options, {}, 1, pool);
      options.max_excluded = std::ssize(excluded);
      const auto sampler = make_sampler(all.view(), options, {}, 1, pool);
      const auto seeds = test::random_nodes(700, 0, graph.num_nodes(), 5);
      const auto whole = test::plain_blocks(sampler->sample(seeds, {.seed = 6}, 0, {}), {});
      sampler->exclude({.lists = excluded});
      test::expect_equal(test::plain_blocks(sampler->sample(seeds, {.seed = 6}, 0, {}), {}),
                         test::plain_blocks(expected->sample(seeds, {.seed = 6}, 0, {}), {}));
      test::expect_equal(test::plain_blocks(sampler->sample(seeds, {.seed = 6}, 0, {}), {}), whole);
    }
  }
}

TEST_P(EveryMethod, ChoosesTheSameUnderOtherGlobalIds) {
  const PlainGraph graph = test::random_graph({.num_nodes = 2000, .seed = 4});
  const SamplerOptions options = GetParam().options({6, 5, 4}, 50);
  const auto seeds = test::random_nodes(50, 0, 2000, 1);
  const auto expected = test::sampled_edges(sample(graph, options, seeds, {.seed = 2}));
  for (const std::uint64_t numbering : {1, 2, 3}) {
    const PlainGraph other = test::renumbered(graph, numbering);
    const std::vector<NodeId> global = test::global_ids(other);
    std::vector<NodeId> renamed;
    for (const NodeId seed : seeds) renamed.push_back(global[at(seed)]);
    EXPECT_EQ(test::sampled_edges(sample(other, options, renamed, {.seed = 2})), expected);
  }
}

TEST_P(EveryMethod, DependsOnEveryPartOfTheKey) {
  const PlainGraph graph = test::random_graph({});
  const SamplerOptions options = GetParam().options({3, 3}, 100);
  const auto seeds = test::random_nodes(100, 0, graph.num_nodes(), 1);
  std::set<std::set<test::SampledEdge>> samples;
  const BatchKey keys[] = {{.seed = 1, .epoch = 1, .step = 1},
                           {.seed = 2, .epoch = 1, .step = 1},
                           {.seed = 1, .epoch = 2, .step = 1},
                           {.seed = 1, .epoch = 1, .step = 2}};
  for (const BatchKey& key : keys) samples.insert(test::sampled_edges(sample(graph, options, seeds, key)));
  EXPECT_EQ(samples.size(), 4u);
}

TEST_P(EveryMethod, TakesAllNeighborsForMinusOne) {
  const PlainGraph graph = test::random_graph({.seed = 6});
  const auto seeds = test::random_nodes(60, 0, graph.num_nodes(), 1);
  const auto blocks = sample(graph, GetParam().options({-1}, 60), seeds, {});
  for (std::size_t i = 0; i < seeds.size(); ++i)
    EXPECT_EQ(blocks[0].indptr[i + 1] - blocks[0].indptr[i], graph.degree(seeds[i]));
}

/// How many picks a node may have, and whether they may hold an edge of weight 0.
TEST_P(EveryMethod, GivesAsManyPicksAsItSays) {
  const MethodCase c = GetParam();
  const PlainGraph graph = test::random_graph({.num_nodes = 3000, .seed = 7});
  std::map<EdgeId, float> weight_of;
  for (std::size_t e = 0; e < graph.edge_ids.size(); ++e) weight_of[graph.edge_ids[e]] = graph.weights[e];
  std::vector<NodeId> seeds(3000);
  std::iota(seeds.begin(), seeds.end(), 0);
  constexpr Count kFanout = 6;
  const auto blocks = sample(graph, c.options({kFanout}, 3000), seeds, {.seed = 1});
  Count labor_picks = 0;
  double labor_expected = 0;
  for (const NodeId v : seeds) {
    const auto i = at(v);
    const Count count = blocks[0].indptr[i + 1] - blocks[0].indptr[i], degree = graph.degree(v);
    Count positive = 0;
    for (Count e = graph.indptr[i]; e < graph.indptr[i + 1]; ++e) positive += graph.weights[at(e)] > 0;
    const Count available = c.method == Method::weighted ? positive : degree;
    std::set<EdgeId> distinct;
    for (Count e = blocks[0].indptr[i]; e < blocks[0].indptr[i + 1]; ++e) {
      const EdgeId edge = blocks[0].edge_ids[at(e)];
      distinct.insert(edge);
      if (c.method == Method::weighted) {
        ASSERT_GT(weight_of[edge], 0);
      }
    }
    if (c.method == Method::labor) {
      ASSERT_TRUE(degree > kFanout ? count <= degree : count == degree);
      labor_picks += count;
      labor_expected += static_cast<double>(std::min(degree, kFanout));
    } else if (c.replace) {
      ASSERT_EQ(count, available > 0 ? kFanout : 0);
    } else {
      ASSERT_EQ(count, std::min(available, kFanout));
    }
    if (!c.replace) {
      ASSERT_EQ(static_cast<Count>(distinct.size()), count);
    }
  }
  EXPECT_NEAR(static_cast<double>(labor_picks), labor_expected, 0.05 * labor_expected);
}

TEST_P(EveryMethod, ChoosesFromAHub) {
  const PlainGraph graph =
      test::random_graph({.num_nodes = 20000, .mean_degree = 2, .hub_degree = 1000000, .seed = 5});
  const std::vector<NodeId> seeds{3, 10000, 4};
  for (const int fanout : {10, 1000}) {
    const SamplerOptions options = GetParam().options({fanout, 2}, 3);
    test::expect_equal(sample(graph, options, seeds, {.seed = 1}),
                       test::reference_blocks(graph, seeds, options, {.seed = 1}));
  }
}

TEST_P(EveryMethod, SamplesAnEmptyGraph) {
  EXPECT_TRUE(sample({}, GetParam().options({3, -1}, 0), {}, {}).back().indices.empty());
}

class MethodOptions : public testing::Test {
 protected:
  void refuses(const SamplerOptions& options, const std::string& message) {
    try {
      make_sampler(owner_.view(), options, {}, 1, pool_);
      ADD_FAILURE() << "accepted; expected: " << message;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }
  static PlainGraph without_weights() {
    PlainGraph graph = test::random_graph({.num_nodes = 100});
    graph.weights.clear();
    return graph;
  }

  ViewOwner owner_{without_weights(), {}};
  ThreadPool pool_{1};
};

TEST_F(MethodOptions, AreChecked) {
  refuses({.fanouts = {3}, .method = Method::weighted}, "loaded without weights");
  refuses({.fanouts = {3}, .method = Method::labor, .replace = true}, "LABOR samples without replacement");
  refuses({.fanouts = {3}, .layer_dependent = true}, "LABOR only");
}

/// Gives node v its neighbor v + 1 as often as the fanout says, or what `chosen` says.
class NextNode final : public NeighborChooser {
 public:
  explicit NextNode(const PlainGraph& graph) : graph_(graph) {}
  void choose(const PickQuery& query, ChosenNeighbors& out) override {
    out = {};
    for (const NodeId node : query.nodes) {
      out.counts.push_back(query.fanout);
      for (int j = 0; j < query.fanout; ++j) {
        out.neighbors.push_back((node + 1) % graph_.num_nodes());
        out.edge_ids.push_back(10 * node + j);
      }
    }
    if (spoil) spoil(out);
  }
  std::function<void(ChosenNeighbors&)> spoil;

 private:
  const PlainGraph& graph_;
};

TEST(UserChooser, FillsTheBlocks) {
  const PlainGraph graph = test::random_graph({.num_nodes = 50});
  for (const bool wide : {false, true}) {
    const ViewOwner owner(graph, {.wide = wide});
    ThreadPool pool(2);
    const auto sampler = make_sampler(owner.view(),
                                      {.fanouts = {2, 1},
                                       .chooser = std::make_shared<NextNode>(graph),
                                       .max_seeds = 2,
                                       .edge_ids = true,
                                       .in_degrees = true},
                                      {}, 1, pool);
    const auto blocks =
        test::plain_blocks(sampler->sample(std::vector<NodeId>{7, 49}, {.seed = 1}, 0, {}), {});
    EXPECT_EQ(blocks[1].src_nodes, (std::vector<NodeId>{7, 49, 0, 8}));
    EXPECT_EQ(blocks[1].indices, (std::vector<std::int32_t>{3, 3, 2, 2}));
    EXPECT_EQ(blocks[1].edge_ids, (std::vector<EdgeId>{70, 71, 490, 491}));
    EXPECT_EQ(blocks[0].indptr, (std::vector<Count>{0, 1, 2, 3, 4}));
    EXPECT_EQ(blocks[0].src_nodes, (std::vector<NodeId>{7, 49, 0, 8, 1, 9}));
  }
}

TEST(UserChooser, IsChecked) {
  const PlainGraph graph = test::random_graph({.num_nodes = 50});
  const ViewOwner owner(graph, {.first = 0, .last = 40});
  ThreadPool pool(1);
  const auto chooser = std::make_shared<NextNode>(graph);
  const auto sampler = make_sampler(
      owner.view(), {.fanouts = {2}, .chooser = chooser, .max_seeds = 2, .edge_ids = true}, {}, 1, pool);
  const auto refusal = [&](NodeId seed, std::function<void(ChosenNeighbors&)> spoil) -> std::string {
    chooser->spoil = std::move(spoil);
    try {
      sampler->sample(std::vector<NodeId>{seed}, {}, 0, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(3, [](auto&) {}), "accepted");
  EXPECT_THAT(refusal(3, [](auto& out) { out.neighbors[1] = 50; }), testing::HasSubstr("gave node 50"));
  EXPECT_THAT(refusal(3, [](auto& out) { out.neighbors[1] = -1; }), testing::HasSubstr("gave node -1"));
  EXPECT_THAT(refusal(3, [](auto& out) { out.neighbors.push_back(1); }), testing::HasSubstr("do not fit"));
  EXPECT_THAT(refusal(3, [](auto& out) { out.counts.clear(); }), testing::HasSubstr("do not fit"));
  EXPECT_THAT(refusal(3, [](auto& out) { out.edge_ids.clear(); }), testing::HasSubstr("do not fit"));
  EXPECT_THAT(refusal(45, [](auto&) {}), testing::HasSubstr("another machine owns"));
}

}  // namespace
}  // namespace strata::sampling
