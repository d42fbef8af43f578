// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "strata/plan/heat.hpp"

namespace strata::plan {
namespace {

/// A node of another machine: how often it occurs here, what batches really do with it, and what was counted.
struct Node {
  std::uint32_t occurrences;
  double reads;  // per batch
  std::uint32_t counted = 0;
};

double probability(double draws, double occurrences) { return -std::expm1(-draws * (occurrences + 0.5)); }

/// Occurrences fall as in graphs with hubs.
std::vector<Node> random_nodes(std::size_t count, std::mt19937_64& random) {
  std::exponential_distribution<double> occurrences(0.05);
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < count; ++i)
    nodes.push_back({static_cast<std::uint32_t>(occurrences(random)), 0});
  return nodes;
}

void count_batches(std::vector<Node>& nodes, int batches, std::mt19937_64& random) {
  for (Node& node : nodes)
    node.counted = static_cast<std::uint32_t>(std::binomial_distribution<int>(batches, node.reads)(random));
}

HaloHeat heat_of(const std::vector<Node>& nodes, Count batches) {
  std::vector<HeatClass> classes(kHeatClasses);
  double reads = 0;
  for (const Node& node : nodes) {
    classes[heat_class(node.occurrences)].add(node.counted, node.counted);
    reads += batches > 0 ? node.counted / static_cast<double>(batches) : node.reads;
  }
  return {classes, {.rows = reads, .visits = {0, reads}, .batches = batches}};
}

/// The reads of a batch that the hottest tenth of the nodes answers, by this order.
template <typename Heat>
double answered(std::vector<Node> nodes, Heat&& heat) {
  std::ranges::stable_sort(nodes, std::greater<>(), heat);
  double sum = 0;
  for (std::size_t i = 0; i < nodes.size() / 10; ++i) sum += nodes[i].reads;
  return sum;
}

TEST(HaloHeat, AddsUpToTheReadsOfABatch) {
  std::mt19937_64 random(1);
  std::vector<Node> nodes = random_nodes(2000, random);
  for (Node& node : nodes) node.reads = 0.1;
  const HaloHeat heat = heat_of(nodes, 0);
  double rows = 0, visits = 0;
  for (const Node& node : nodes) {
    rows += heat.rows(heat_class(node.occurrences), 0);
    visits += heat.visits(heat_class(node.occurrences), 0);
  }
  EXPECT_NEAR(rows, 200, 1e-6);
  EXPECT_NEAR(visits, 200, 1e-6);
}

// Counts of few batches are noise where the structure says all.
TEST(HaloHeat, StaysWithTheStructureWhereBatchesDoWhatItSays) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Node> nodes = random_nodes(20000, random);
    for (Node& node : nodes) node.reads = probability(0.002, node.occurrences);
    count_batches(nodes, 4, random);
    const HaloHeat heat = heat_of(nodes, 4);
    const double best = answered(nodes, [](const Node& n) { return n.reads; });
    const double found =
        answered(nodes, [&](const Node& n) { return heat.rows(heat_class(n.occurrences), n.counted); });
    EXPECT_GT(found, 0.97 * best) << "seed " << seed;
    EXPECT_GT(found, answered(nodes, [](const Node& n) { return n.counted; })) << "seed " << seed;
  }
}

// Batches reach one node of ten, whatever the structure says.
TEST(HaloHeat, FollowsTheCountsWhereTheStructureMisleads) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Node> nodes = random_nodes(20000, random);
    for (std::size_t i = 0; i < nodes.size(); i += 10)
      nodes[i].reads = probability(0.02, nodes[i].occurrences);
    count_batches(nodes, 8, random);
    const HaloHeat heat = heat_of(nodes, 8);
    const double best = answered(nodes, [](const Node& n) { return n.reads; });
    EXPECT_GT(answered(nodes, [&](const Node& n) { return heat.rows(heat_class(n.occurrences), n.counted); }),
              0.9 * best)
        << "seed " << seed;
    EXPECT_LT(answered(nodes, [](const Node& n) { return n.occurrences; }), 0.3 * best) << "seed " << seed;
  }
}

TEST(HaloHeat, ExpectsPicksOfAListByHowOftenHopsVisitIt) {
  const HaloHeat heat(std::vector<HeatClass>(kHeatClasses), {.rows = 0, .visits = {0, 1, 3}, .batches = 0});
  EXPECT_DOUBLE_EQ(heat.picks(8, std::vector{15, 10, 4}), (8 + 3 * 4) / 4.0);
  EXPECT_DOUBLE_EQ(heat.picks(8, std::vector{15, -1, -1}), 8);
}

TEST(HaloHeat, OfNothingIsNothing) {
  const HaloHeat heat(std::vector<HeatClass>(kHeatClasses), {.rows = 0, .visits = {0, 0}, .batches = 3});
  EXPECT_EQ(heat.rows(5, 0), 0);
  EXPECT_EQ(heat.picks(5, std::vector{3, 3}), 0);
}

// Two hops of 2 from 10 seeds find 20 and 60 nodes, half of them remote.
TEST(ExpectReads, FollowsTheFanouts) {
  const HaloReads reads =
      expect_reads({.own_nodes = 1'000'000, .other_nodes = 1'000'000, .mean_degree = 7, .remote_share = 0.5},
                   {.seeds = 10, .fanouts = {2, 2}});
  ASSERT_EQ(reads.visits.size(), 2u);
  EXPECT_DOUBLE_EQ(reads.visits[0], 0);
  EXPECT_DOUBLE_EQ(reads.visits[1], 10);
  EXPECT_DOUBLE_EQ(reads.rows, 40);
  EXPECT_EQ(reads.batches, 0);
}

// A batch may have more seeds than the machine has nodes.
TEST(ExpectReads, EndsWithTheGraph) {
  for (const Count seeds : {10, 1000}) {
    const HaloReads reads =
        expect_reads({.own_nodes = 50, .other_nodes = 40, .mean_degree = 7, .remote_share = 0.5},
                     {.seeds = seeds, .fanouts = {-1, -1, 3}});
    EXPECT_DOUBLE_EQ(reads.rows, 40) << seeds;
  }
}

}  // namespace
}  // namespace strata::plan
