// SPDX-License-Identifier: Apache-2.0
#include "strata/sampling/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strata/util/error.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::PlainGraph;
using test::ViewOwner;

/// What a case varies besides the fanouts.
struct Case {
  std::vector<int> fanouts;
  bool wide = false;
  int threads = 2;
  bool everything = true;  // edge ids, degrees and transposes
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << "fanouts";
  for (const int f : c.fanouts) out << ' ' << f;
  return out << (c.wide ? ", i64" : ", i32") << ", " << c.threads << " threads"
             << (c.everything ? "" : ", bare");
}

class SamplerTest : public testing::TestWithParam<Case> {
 protected:
  SamplerOptions options() const {
    const bool all = GetParam().everything;
    return {.fanouts = GetParam().fanouts,
            .max_seeds = 100,
            .edge_ids = all,
            .in_degrees = all,
            .transpose = all,
            .input_transpose = GetParam().wide,
            .sorted_inputs = all};
  }
};

TEST_P(SamplerTest, EqualsTheReference) {
  const PlainGraph graph = test::renumbered(test::random_graph({.num_nodes = 3000, .seed = 3}), 4);
  const ViewOwner owner(graph, {.wide = GetParam().wide});
  ThreadPool pool(GetParam().threads);
  const auto sampler = make_sampler(owner.view(), options(), {}, 2, pool);
  for (std::uint32_t step = 0; step < 6; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const auto seeds = test::random_nodes(step == 3 ? 0 : 20 + step, 0, graph.num_nodes(), step);
    const BatchKey key{.seed = 11, .epoch = 2, .step = step};
    const MiniBatch batch = sampler->sample(seeds, key, static_cast<int>(step % 2), {});
    EXPECT_EQ(batch.num_seeds, static_cast<Count>(seeds.size()));
    test::expect_equal(test::plain_blocks(batch, {}), test::reference_blocks(graph, seeds, options(), key));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SamplerTest,
                         testing::Values(Case{{5}}, Case{{5, 3, 2}}, Case{{15, 10, 5}, true}, Case{{-1}},
                                         Case{{-1, 4}}, Case{{3, -1}, true}, Case{{0}}, Case{{2, 0, 3}},
                                         Case{{40, 2}}, Case{{4, 4, 4}, false, 1},
                                         Case{{4, 4}, false, 3, false}));

TEST(Sampler, ChoosesFromAHub) {
  const PlainGraph graph =
      test::random_graph({.num_nodes = 20000, .mean_degree = 2, .hub_degree = 1000000, .seed = 5});
  const ViewOwner owner(graph, {});
  ThreadPool pool(2);
  const std::vector<NodeId> seeds{3, 10000, 4};
  for (const int fanout : {10, 1000, -1}) {
    const SamplerOptions options{.fanouts = {fanout, 2}, .max_seeds = 3, .edge_ids = true, .transpose = true};
    const auto sampler = make_sampler(owner.view(), options, {}, 1, pool);
    const auto blocks = test::plain_blocks(sampler->sample(seeds, {.seed = 1}, 0, {}), {});
    test::expect_equal(blocks, test::reference_blocks(graph, seeds, options, {.seed = 1}));
    const auto& edges = blocks.back().edge_ids;
    EXPECT_EQ(std::set<EdgeId>(edges.begin(), edges.end()).size(), edges.size())
        << "an edge was sampled twice";
  }
}

TEST(Sampler, KeepsEarlierBuffers) {
  const PlainGraph graph = test::random_graph({});
  const ViewOwner owner(graph, {});
  ThreadPool pool(2);
  const SamplerOptions options{.fanouts = {4, 3}, .max_seeds = 50};
  const auto sampler = make_sampler(owner.view(), options, {}, 3, pool);
  std::vector<MiniBatch> batches;
  std::vector<std::vector<NodeId>> seeds;
  for (std::uint32_t buffer = 0; buffer < 3; ++buffer) {
    seeds.push_back(test::random_nodes(10 + 20 * buffer, 0, graph.num_nodes(), buffer));
    batches.push_back(sampler->sample(seeds.back(), {.step = buffer}, static_cast<int>(buffer), {}));
  }
  for (std::uint32_t buffer = 0; buffer < 3; ++buffer) {
    test::expect_equal(test::plain_blocks(batches[buffer], {}),
                       test::reference_blocks(graph, seeds[buffer], options, {.step = buffer}));
  }
}

// The key is what decides, not the order of calls; and every part of it counts.
TEST(Sampler, DependsOnEveryPartOfTheKey) {
  const PlainGraph graph = test::random_graph({});
  const ViewOwner owner(graph, {});
  ThreadPool pool(2);
  const auto sampler =
      make_sampler(owner.view(), {.fanouts = {3, 3}, .max_seeds = 100, .edge_ids = true}, {}, 1, pool);
  const auto seeds = test::random_nodes(100, 0, graph.num_nodes(), 1);
  const auto edges = [&](const BatchKey& key) {
    return test::sampled_edges(test::plain_blocks(sampler->sample(seeds, key, 0, {}), {}));
  };
  const auto first = edges({.seed = 1, .epoch = 1, .step = 1});
  EXPECT_NE(first, edges({.seed = 2, .epoch = 1, .step = 1}));
  EXPECT_NE(first, edges({.seed = 1, .epoch = 2, .step = 1}));
  EXPECT_NE(first, edges({.seed = 1, .epoch = 1, .step = 2}));
  EXPECT_EQ(first, edges({.seed = 1, .epoch = 1, .step = 1}));
}

TEST(Sampler, SamplesAnEmptyGraph) {
  const ViewOwner owner(PlainGraph{}, {});
  ThreadPool pool(1);
  const auto sampler = make_sampler(owner.view(), {.fanouts = {3, -1}, .transpose = true}, {}, 1, pool);
  const MiniBatch batch = sampler->sample({}, {}, 0, {});
  EXPECT_EQ(batch.num_inputs(), 0);
  EXPECT_EQ(batch.num_edges(), 0);
}

class SamplerOptionsTest : public testing::Test {
 protected:
  void refuses(const SamplerOptions& options, const std::string& message, int num_buffers = 1) {
    try {
      make_sampler(owner_.view(), options, {}, num_buffers, pool_);
      ADD_FAILURE() << "accepted; expected: " << message;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }

  ViewOwner owner_{test::random_graph({.num_nodes = 10}), {}};
  ThreadPool pool_{1};
};

TEST_F(SamplerOptionsTest, AreChecked) {
  refuses({}, "no fanouts");
  refuses({.fanouts = {3, -2}}, "fanout -2 is below -1");
  refuses({.fanouts = std::vector<int>(256, 1)}, "256 fanouts");
  refuses({.fanouts = {3}}, "buffer", 0);
  refuses({.fanouts = {3}, .max_seeds = -1}, "max_seeds is -1");
  refuses({.fanouts = {3}, .compact_inputs = false, .sorted_inputs = true}, "cannot be given sorted");
}

TEST_F(SamplerOptionsTest, MustFitTheGraph) {
  store::GraphView bare = owner_.view();
  bare.edge_ids.size = 0;
  bare.in_degrees = nullptr;
  EXPECT_THROW(make_sampler(bare, {.fanouts = {1}, .edge_ids = true}, {}, 1, pool_), InputError);
  EXPECT_THROW(make_sampler(bare, {.fanouts = {1}, .in_degrees = true}, {}, 1, pool_), InputError);
}

// Forecasts read lists where they lie, and pick as runs do.
TEST(UniformPicks, AreThoseOfTheSampler) {
  const PlainGraph graph = test::random_graph({.num_nodes = 400, .mean_degree = 60, .seed = 6});
  const ViewOwner owner(graph, {});
  ThreadPool pool(1);
  const BatchKey key{.seed = 3, .epoch = 0, .step = 5};
  for (const int fanout : {7, 50}) {
    const auto sampler =
        make_sampler(owner.view(), {.fanouts = {fanout}, .max_seeds = 1, .edge_ids = true}, {}, 1, pool);
    int chosen = 0;
    for (NodeId node = 0; node < graph.num_nodes(); ++node) {
      if (graph.degree(node) <= fanout) continue;
      ++chosen;
      std::vector<Count> positions;
      append_uniform_picks(graph.degree(node), fanout, node_key(key, RandomUse::sample, 0, node), positions);
      std::vector<EdgeId> expected;
      for (const Count position : positions)
        expected.push_back(graph.edge_ids[at(graph.indptr[at(node)] + position)]);
      EXPECT_EQ(test::plain_blocks(sampler->sample(std::vector{node}, key, 0, {}), {})[0].edge_ids, expected);
    }
    EXPECT_GT(chosen, 10) << fanout;
  }
}

}  // namespace
}  // namespace strata::sampling
