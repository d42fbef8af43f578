// SPDX-License-Identifier: Apache-2.0
#include "multilevel/accelerator.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "multilevel/jet.hpp"
#include "multilevel/multilevel.hpp"

namespace strata::partition {
namespace {

using Parts = std::vector<std::int32_t>;

/// What a random level is like.
struct Shape {
  Count nodes = 1000;
  Count pairs = 5000;
  double skew = 0;     ///< share of edges that end at one of ten hubs
  bool local = false;  ///< neighbors have near numbers
  bool weighted_edges = false;
  int constraints = 0;  ///< 0: no node weights
};

LevelGraph random_level(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto below = [&](Count most) {
    return static_cast<Count>(random() % static_cast<std::uint64_t>(most));
  };
  std::vector<std::map<std::int32_t, std::uint32_t>> neighbors(at(shape.nodes));
  for (Count i = 0; i < shape.pairs; ++i) {
    const Count u = below(shape.nodes);
    Count v = shape.local ? (u + 1 + below(30)) % shape.nodes : below(shape.nodes);
    if (static_cast<double>(random() % 1000) < 1000 * shape.skew) v = below(10);
    if (u == v) continue;
    const auto weight = static_cast<std::uint32_t>(shape.weighted_edges ? 1 + random() % 9 : 1);
    neighbors[at(u)][static_cast<std::int32_t>(v)] = neighbors[at(v)][static_cast<std::int32_t>(u)] = weight;
  }
  LevelGraph graph;
  graph.num_nodes = shape.nodes;
  graph.own_begin = {0};
  for (const auto& list : neighbors) {
    for (const auto& [id, weight] : list) {
      graph.own_ids.push_back(id);
      if (shape.weighted_edges) graph.own_edge_weights.push_back(weight);
    }
    graph.own_begin.push_back(std::ssize(graph.own_ids));
  }
  graph.use_own_lists();
  graph.num_constraints = std::max(shape.constraints, 1);
  for (Count i = 0; i < shape.nodes * shape.constraints; ++i)
    graph.node_weights.push_back(i % shape.constraints == 0 ? 1 : below(4));
  return graph;
}

std::vector<Shape> shapes() {
  return {{},
          {.nodes = 20000, .pairs = 90000, .weighted_edges = true},
          {.nodes = 20000, .pairs = 60000, .local = true},
          {.nodes = 9000, .pairs = 60000, .skew = 0.3, .weighted_edges = true, .constraints = 1},
          {.nodes = 30000, .pairs = 100000, .skew = 0.1, .constraints = 3},
          {.nodes = 5000, .pairs = 4999, .skew = 1},
          {.nodes = 140000, .pairs = 300000},
          {.nodes = 100, .pairs = 0},
          {.nodes = 1, .pairs = 0}};
}

std::vector<Count> limits_of(const LevelGraph& graph, double share) {
  std::vector<Count> limits;
  for (const Count total : total_weights(graph))
    limits.push_back(std::max<Count>(1, static_cast<Count>(share * static_cast<double>(total))));
  return limits;
}

Parts modulo(Count nodes, int parts) {
  Parts result(at(nodes));
  for (std::size_t v = 0; v < result.size(); ++v) result[v] = static_cast<std::int32_t>(v) % parts;
  return result;
}

/// Runs with all lists on the GPU and with lists that pass through it.
class CutOnGpu : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if (!has_cuda_device()) GTEST_SKIP() << "needs a GPU";
    accelerator_ = cuda_accelerator({.least_entries = 0, .list_bytes = GetParam()});
  }

  std::unique_ptr<Accelerator> accelerator_;
  ThreadPool pool_{2};
};

TEST_P(CutOnGpu, FindsTheClustersOfTheCpu) {
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes()) {
    const LevelGraph graph = random_level(shape, ++seed);
    const Parts within = modulo(graph.num_nodes, 3);
    for (const double share : {0.0005, 0.01}) {
      for (const Parts* groups : {static_cast<const Parts*>(nullptr), &within}) {
        const ClusterOptions options{
            .limits = limits_of(graph, share), .rounds = 3, .seed = seed, .within = groups};
        const Labels expected = propagate(graph, options, pool_);
        const Labels labels = accelerator_->propagate(graph, options);
        EXPECT_EQ(labels.label, expected.label) << "seed " << seed << ", limit " << share;
        EXPECT_EQ(labels.favorite, expected.favorite) << "seed " << seed << ", limit " << share;
        EXPECT_EQ(labels.load, expected.load) << "seed " << seed << ", limit " << share;
      }
    }
  }
}

TEST_P(CutOnGpu, RefinesAsTheCpuDoes) {
  std::uint64_t seed = 100;
  for (const Shape& shape : shapes()) {
    const LevelGraph graph = random_level(shape, ++seed);
    for (const int parts : {2, 7, 300}) {
      if (parts > graph.num_nodes) continue;
      const std::vector<Count> limits = limits_of(graph, 1.05 / parts);
      Parts expected = modulo(graph.num_nodes, parts), mine = expected;
      Loads expected_loads{graph, expected, parts, limits}, loads{graph, mine, parts, limits};
      const JetOptions options{.temperatures = {0.75, 0}, .patience = 4};
      const Count expected_cut = refine_jet(graph, expected_loads, expected, options, pool_);
      const auto steps = accelerator_->jet_steps(graph, mine, parts);
      EXPECT_EQ(refine_jet(graph, loads, mine, options, *steps, pool_), expected_cut)
          << "seed " << seed << ", " << parts << " parts";
      EXPECT_EQ(mine, expected) << "seed " << seed << ", " << parts << " parts";
      EXPECT_EQ(cut_of(graph, mine, pool_), expected_cut) << "seed " << seed << ", " << parts << " parts";
    }
  }
}

TEST_P(CutOnGpu, CutsAsTheCpuDoes) {
  std::uint64_t seed = 200;
  for (const Shape& shape : {Shape{.nodes = 5000, .pairs = 20000, .skew = 0.1, .constraints = 2},
                             Shape{.nodes = 8000, .pairs = 24000, .local = true}}) {
    const LevelGraph graph = random_level(shape, ++seed);
    for (const int parts : {2, 9}) {
      MultilevelOptions options{.num_parts = parts, .limits = limits_of(graph, 1.05 / parts), .seed = seed};
      const Parts expected = multilevel_parts(graph, options, pool_);
      options.accelerator = accelerator_.get();
      EXPECT_EQ(multilevel_parts(graph, options, pool_), expected)
          << "seed " << seed << ", " << parts << " parts";
    }
  }
}

constexpr std::int64_t kAll = 0, kLittle = 40'000;
INSTANTIATE_TEST_SUITE_P(Lists, CutOnGpu, testing::Values(kAll, kLittle),
                         [](const auto& info) { return info.param == kAll ? "Resident" : "Streamed"; });

}  // namespace
}  // namespace strata::partition
