// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/heat.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace strata::plan {
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

constexpr int kFanouts[] = {10, -1};

/// A machine's share of a random graph of which it hosts the middle, in three parts. The same on all ranks.
class Structure {
 public:
  explicit Structure(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    indptr_.push_back(0);
    for (Count v = 0; v < kLocal; ++v) indptr_.push_back(indptr_.back() + static_cast<Count>(random() % 40));
    for (Count e = 0; e < indptr_.back(); ++e) {
      const auto a = random() % kNodes, b = random() % kNodes;
      indices_.push_back(static_cast<std::int32_t>(std::min(a, b)));
    }
  }

  HeatSource source(Count max_entries) const {
    return {.first_node = kFirst,
            .num_local = kLocal,
            .indptr = indptr_.data(),
            .indices = {.data = indices_.data(), .size = std::ssize(indices_), .wide = false},
            .part_rows = part_rows_,
            .fanouts = kFanouts,
            .max_entries = max_entries};
  }
  const std::vector<Count>& part_rows() const { return part_rows_; }
  const std::vector<Count>& indptr() const { return indptr_; }
  const std::vector<std::int32_t>& indices() const { return indices_; }

  static constexpr Count kNodes = 3000, kFirst = 500, kLocal = 2000;

 private:
  std::vector<Count> indptr_, part_rows_ = {1200, 0, 800};
  std::vector<std::int32_t> indices_;
};

/// As three ranks count it together.
NodeHeat heat_of(const Structure& structure, Count max_entries) {
  ThreadPool pool(2);
  HeatCounter sum(structure.source(max_entries), {0, 3}, pool);
  for (const int rank : {1, 2}) {
    HeatCounter other(structure.source(max_entries), {rank, 3}, pool);
    std::ranges::transform(sum.sums(), other.sums(), sum.sums().begin(), std::plus<>());
  }
  return sum.heat();
}

TEST(HeatCounter, CountsOccurrencesAndSampledNeighbors) {
  const Structure structure(1);
  const NodeHeat heat = heat_of(structure, Count{1} << 40);
  ASSERT_EQ(heat.segments.size(), 3u);
  Count row = 0;
  for (std::size_t s = 0; s < 3; ++s) {
    Count nodes = 0;
    for (const NodeGroup& group : heat.segments[s]) {
      double occurrences = 0, first = 0, second = 0;
      for (Count end = row + group.nodes; row < end; ++row) {
        const auto r = at(row);
        const Count degree = structure.indptr()[r + 1] - structure.indptr()[r];
        occurrences += static_cast<double>(
            std::ranges::count(structure.indices(), static_cast<std::int32_t>(Structure::kFirst + row)));
        first += static_cast<double>(std::min<Count>(degree, 10));
        second += static_cast<double>(degree);
      }
      nodes += group.nodes;
      ASSERT_EQ(group.occurrences, occurrences) << "rows before " << row;
      ASSERT_EQ(group.sampled, (std::vector<double>{first, second})) << "rows before " << row;
    }
    EXPECT_EQ(nodes, structure.part_rows()[s]);
  }
  EXPECT_EQ(row, Structure::kLocal);
}

TEST(HeatCounter, OfPiecesIsNearThatOfAll) {
  const Structure structure(2);
  const Count entries = std::ssize(structure.indices());
  ASSERT_GT(entries, 30000);
  const auto total = [](const NodeHeat& heat) {
    double sum = 0;
    for (const auto& segment : heat.segments) {
      for (const NodeGroup& group : segment) sum += group.occurrences;
    }
    return sum;
  };
  const double all = total(heat_of(structure, entries));
  const double some = total(heat_of(structure, entries / 2));
  EXPECT_NE(some, all);
  EXPECT_NEAR(some, all, 0.5 * all);
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
}  // namespace strata::plan
