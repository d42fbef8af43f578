// SPDX-License-Identifier: Apache-2.0
#include "heat.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace strata::store {
namespace {

TEST(RowBuckets, CoverTheRowsWithoutGaps) {
  int bucket = 0;
  for (Count row = 0; row < 300000; ++row) {
    if (row == row_buckets::begin(bucket + 1)) ++bucket;
    ASSERT_EQ(row_buckets::of(row), bucket) << "row " << row;
  }
  EXPECT_EQ(row_buckets::count(0), 0);
  EXPECT_EQ(row_buckets::count(1), 1);
  EXPECT_EQ(row_buckets::count(40), row_buckets::of(39) + 1);
}

TEST(RowBuckets, AreAFewHundredAndNarrow) {
  EXPECT_LT(row_buckets::count(Count{1} << 32), 600);
  for (const Count row : {Count{100}, Count{12345}, Count{1} << 33}) {
    const int bucket = row_buckets::of(row);
    EXPECT_LE(row_buckets::begin(bucket), row);
    EXPECT_LE(static_cast<double>(row_buckets::begin(bucket + 1) - row_buckets::begin(bucket)),
              static_cast<double>(row) / row_buckets::kPerOctave + 1);
  }
}

NodeGroup group(Count nodes, double occurrences, const std::vector<double>& sampled) {
  return {nodes, occurrences, sampled};
}

TEST(ExpectAccesses, OfOneHopAddUp) {
  const NodeHeat heat{{{group(100, 300, {200}), group(100, 100, {50})}}};
  const BatchAccesses accesses = expect_accesses(heat, {.seeds = 20, .fanouts = {2}});
  EXPECT_DOUBLE_EQ(accesses.lists, 20);
  EXPECT_DOUBLE_EQ(accesses.neighbors, 25);  // a tenth of the nodes is reached, and so is a tenth of 250
  const double hot = 100 * (1 - 0.9 * std::exp(-25 * 0.75 / 100)),
               cold = 100 * (1 - 0.9 * std::exp(-25 * 0.25 / 100));
  ASSERT_EQ(accesses.features.size(), 1u);
  EXPECT_NEAR(accesses.features[0].accesses_below(100), hot, 1e-9);
  EXPECT_NEAR(accesses.features[0].accesses(), hot + cold, 1e-9);
  EXPECT_NEAR(accesses.nodes, hot + cold, 1e-9);
}

TEST(ExpectAccesses, OfListsAreThoseOfTheirNodesInEveryHop) {
  const NodeHeat heat{{{group(100, 300, {200, 150}), group(100, 100, {50, 50})}, {}, {group(9, 1, {0, 0})}}};
  const BatchAccesses accesses = expect_accesses(heat, {.seeds = 20, .fanouts = {2, 1}});
  const std::vector<double>& visits = accesses.visits_per_list;
  ASSERT_EQ(visits.size(), 3u);
  EXPECT_NEAR(100 * visits[0] + 100 * visits[1] + 9 * visits[2], accesses.lists, 1e-9);
  const double seeds = 20.0 / 209, draws = seeds * 250;
  EXPECT_NEAR(visits[0], seeds + 1 - (1 - seeds) * std::exp(-draws * 300 / 401 / 100), 1e-9);
  EXPECT_GT(visits[0], visits[1]);
  EXPECT_GT(visits[1], visits[2]);
}

TEST(ExpectAccesses, NeverExceedTheRows) {
  const NodeHeat heat{{{group(10, 1e6, {1e5, 1e5})}, {}, {group(1000, 10, {2e4, 2e4})}}};
  const BatchAccesses accesses = expect_accesses(heat, {.seeds = 5000, .fanouts = {1000, 1000}});
  EXPECT_NEAR(accesses.features[0].accesses(), 10, 1e-9);
  EXPECT_EQ(accesses.features[1].rows(), 0);
  EXPECT_NEAR(accesses.features[2].accesses(), 1000, 1e-9);
}

TEST(ExpectAccesses, AreTheSeedsWithoutHops) {
  const NodeHeat heat{{{group(100, 1, {})}}};
  EXPECT_DOUBLE_EQ(expect_accesses(heat, {.seeds = 30, .fanouts = {}}).features[0].accesses(), 30);
  EXPECT_EQ(expect_accesses({}, {.seeds = 30, .fanouts = {}}).features.size(), 0u);
}

/// Draws batches from a graph whose lists hold node v with a probability proportional to 1 / (v + 1).
TEST(ExpectAccesses, AreNearThoseOfDrawnBatches) {
  constexpr Count kNodes = 2000, kSeeds = 20;
  const std::vector<int> fanouts = {5, 4};
  std::vector<double> weights;
  NodeHeat heat{{{}}};
  for (Count v = 0; v < kNodes; ++v) {
    weights.push_back(1 / static_cast<double>(v + 1));
    heat.segments[0].push_back(group(1, 1e6 * weights.back(), {5, 4}));
  }
  const BatchAccesses expected = expect_accesses(heat, {.seeds = kSeeds, .fanouts = fanouts});
  std::mt19937_64 random(3);
  std::discrete_distribution<std::size_t> neighbor(weights.begin(), weights.end());
  std::uniform_int_distribution<std::size_t> any(0, kNodes - 1);
  constexpr int kBatches = 2000;
  double hot = 0, all = 0, lists = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    std::vector<bool> reached(kNodes, false);
    for (Count s = 0; s < kSeeds; ++s) reached[any(random)] = true;
    for (const int fanout : fanouts) {
      const std::vector<bool> frontier = reached;
      for (std::size_t v = 0; v < frontier.size(); ++v) {
        if (!frontier[v]) continue;
        ++lists;
        for (int i = 0; i < fanout; ++i) reached[neighbor(random)] = true;
      }
    }
    hot += static_cast<double>(std::count(reached.begin(), reached.begin() + 50, true));
    all += static_cast<double>(std::count(reached.begin(), reached.end(), true));
  }
  EXPECT_NEAR(expected.features[0].accesses_below(50), hot / kBatches, 0.03 * hot / kBatches);
  EXPECT_NEAR(expected.features[0].accesses(), all / kBatches, 0.03 * all / kBatches);
  EXPECT_NEAR(expected.lists, lists / kBatches, 0.03 * lists / kBatches);
}

}  // namespace
}  // namespace strata::store
