// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "support/methods.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::PlainBlock;
using test::PlainGraph;

/// Nodes [0, num_lists) have `degree` in-neighbors of their own each: no two lists share one.
PlainGraph disjoint_lists(Count num_lists, Count degree) {
  PlainGraph graph;
  for (NodeId v = 0; v < num_lists * (degree + 1); ++v) {
    graph.original_ids.push_back(v);
    for (Count j = 0; v < num_lists && j < degree; ++j) {
      graph.edge_ids.push_back(static_cast<EdgeId>(graph.indices.size()));
      graph.indices.push_back(num_lists + v * degree + j);
    }
    graph.indptr.push_back(static_cast<Count>(graph.indices.size()));
  }
  return graph;
}

std::vector<NodeId> first_nodes(Count count) {
  std::vector<NodeId> nodes(at(count));
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

class Labor {
 public:
  Labor(const PlainGraph& graph, std::vector<int> fanouts, bool layer_dependent = false) : owner_(graph, {}) {
    SamplerOptions options = test::MethodCase{Method::labor, false, layer_dependent}.options(fanouts, 100000);
    sampler_ = make_sampler(owner_.view(), options, {}, 1, pool_);
  }
  std::vector<PlainBlock> operator()(const std::vector<NodeId>& seeds, std::uint32_t step) {
    return test::plain_blocks(sampler_->sample(seeds, {.seed = 21, .step = step}, 0, {}), {});
  }

 private:
  test::ViewOwner owner_;
  ThreadPool pool_{2};
  std::unique_ptr<MiniBatchSampler> sampler_;
};

double bound(double degrees) {  // of chi-square at 1 - 1e-6 (Wilson and Hilferty)
  const double t = 2 / (9 * degrees);
  return degrees * std::pow(1 - t + 4.7534 * std::sqrt(t), 3);
}

// With disjoint lists every position is a trial of its own: sums of squares over np(1 - p) are chi-square.
TEST(LaborStatistics, IncludesEachPositionWithFanoutOverDegree) {
  constexpr Count kLists = 3000;
  constexpr std::uint32_t kSteps = 10;
  for (const auto& [degree, fanout] : {std::pair{5, 1}, {5, 4}, {12, 5}, {40, 10}, {100, 3}}) {
    SCOPED_TRACE(std::to_string(fanout) + " of " + std::to_string(degree));
    Labor labor(disjoint_lists(kLists, degree), {fanout});
    const auto d = at(degree);
    std::vector<double> single(d), pairs(d * d);
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const auto blocks = labor(first_nodes(kLists), step);
      for (std::size_t v = 0; v < kLists; ++v) {
        for (Count a = blocks[0].indptr[v]; a < blocks[0].indptr[v + 1]; ++a) {
          const auto p = at(blocks[0].edge_ids[at(a)]) % d;
          ++single[p];
          for (Count b = blocks[0].indptr[v]; b < a; ++b) ++pairs[at(blocks[0].edge_ids[at(b)]) % d * d + p];
        }
      }
    }
    const double draws = static_cast<double>(kLists) * kSteps, p = static_cast<double>(fanout) / degree;
    double chi_square = 0, pair_chi_square = 0;
    for (std::size_t a = 0; a < d; ++a) {
      chi_square += std::pow(single[a] - draws * p, 2) / (draws * p * (1 - p));
      for (std::size_t b = a + 1; b < d; ++b)
        pair_chi_square += std::pow(pairs[a * d + b] - draws * p * p, 2) / (draws * p * p * (1 - p * p));
    }
    EXPECT_LT(chi_square, bound(static_cast<double>(d)));
    // Counts of pairs that share a position are correlated a little: the bound has room for it.
    const double num_pairs = static_cast<double>(d * (d - 1)) / 2;
    EXPECT_LT(pair_chi_square / num_pairs, 2.5) << "pairs are not independent";
    EXPECT_GT(pair_chi_square / num_pairs, 0.2);
  }
}

TEST(LaborStatistics, NodesThatShareNeighborsChooseTheSame) {
  PlainGraph graph;  // nodes 0 and 1 have the neighbors 3..22, node 2 the neighbors 3..12
  for (NodeId v = 0; v < 23; ++v) {
    graph.original_ids.push_back(v);
    for (NodeId u = 3; v < 3 && u < (v < 2 ? 23 : 13); ++u) {
      graph.edge_ids.push_back(static_cast<EdgeId>(graph.indices.size()));
      graph.indices.push_back(u);
    }
    graph.indptr.push_back(static_cast<Count>(graph.indices.size()));
  }
  Labor labor(graph, {5});
  for (std::uint32_t step = 0; step < 50; ++step) {
    const auto block = labor({0, 1, 2}, step).front();
    std::set<NodeId> lists[3];
    for (std::size_t v = 0; v < 3; ++v)
      for (Count e = block.indptr[v]; e < block.indptr[v + 1]; ++e)
        lists[v].insert(block.src_nodes[at(block.indices[at(e)])]);
    EXPECT_EQ(lists[0], lists[1]);
    for (const NodeId node : lists[0])  // 5 of 20 is less than 5 of 10
      EXPECT_TRUE(node >= 13 || lists[2].contains(node));
  }
}

TEST(LaborStatistics, LayersShareNumbersOnlyIfAsked) {
  constexpr Count kLists = 400;
  const PlainGraph graph = disjoint_lists(kLists, 20);
  for (const bool dependent : {false, true}) {
    Labor labor(graph, {4, 4}, dependent);
    const auto blocks = labor(first_nodes(kLists), 3);
    std::set<EdgeId> hops[2];  // hop 1 samples again for the seeds
    for (const std::size_t hop : {0u, 1u})
      for (std::size_t e = 0; e < at(blocks[1 - hop].indptr[kLists]); ++e)
        hops[hop].insert(blocks[1 - hop].edge_ids[e]);
    std::vector<EdgeId> both;
    std::ranges::set_intersection(hops[0], hops[1], std::back_inserter(both));
    if (dependent) {
      EXPECT_EQ(hops[0], hops[1]);
    } else {
      EXPECT_NEAR(static_cast<double>(both.size()), kLists * 20 * 0.04, 5 * std::sqrt(kLists * 20 * 0.04));
    }
  }
}

// The Horvitz-Thompson estimator of a node's sum: every sampled x_t counts d / fanout times.
TEST(LaborStatistics, EstimatesSumsWithoutBias) {
  const PlainGraph graph = test::random_graph({.num_nodes = 800, .mean_degree = 20, .seed = 12});
  constexpr std::uint32_t kSteps = 600;
  constexpr int kFanout = 5;
  Labor labor(graph, {kFanout});
  const auto seeds = first_nodes(800);
  const auto value = [](NodeId node) { return unit_double(mix64(static_cast<std::uint64_t>(node))) - 0.3; };
  std::vector<double> sums(seeds.size());
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const auto block = labor(seeds, step).front();
    for (std::size_t v = 0; v < seeds.size(); ++v) {
      const double scale = std::max(1.0, static_cast<double>(graph.degree(static_cast<NodeId>(v))) / kFanout);
      for (Count e = block.indptr[v]; e < block.indptr[v + 1]; ++e)
        sums[v] += scale * value(block.src_nodes[at(block.indices[at(e)])]);
    }
  }
  for (std::size_t v = 0; v < seeds.size(); ++v) {
    const auto degree = static_cast<double>(graph.degree(static_cast<NodeId>(v)));
    const double p = std::min(1.0, kFanout / degree);
    double exact = 0;
    std::map<NodeId, double> of_source;  // parallel edges share their source's number
    for (Count e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e) {
      const NodeId source = graph.indices[at(e)];
      exact += value(source);
      of_source[source] += value(source);
    }
    double variance = 0;
    for (const auto& [source, x] : of_source) variance += x * x * (1 - p) / p;
    EXPECT_NEAR(sums[v] / kSteps, exact, 5.5 * std::sqrt(variance / kSteps) + 1e-9) << "node " << v;
  }
}

}  // namespace
}  // namespace strata::sampling
