// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "support/methods.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

constexpr Count kNodes = 4000;
constexpr std::uint32_t kSteps = 10;
constexpr double kDraws = static_cast<double>(kNodes) * kSteps;

using Positions = std::vector<std::size_t>;

struct Case {
  std::string name;
  std::vector<float> weights;  // of every node's list
  int fanout;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"equal", std::vector<float>(6, 0.25f), 3},
      {"skewed", {1, 2, 4, 8, 16, 32}, 2},
      {"with_zeros", {0, 3, 0, 1, 2, 2, 0.5f}, 3},
      {"huge", {0x1.0p125f, 0x1.8p126f, 0x1.0p127f, 0x1.8p127f}, 2},
      {"tiny", {0x1.0p-149f, 0x1.8p-147f, 0x1.0p-146f, 0x1.0p-148f}, 2},
      {"one_of_many", {5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 1},
      {"dominant", {1000, 1, 1, 1, 1}, 2},
      {"all_but_one", {1, 2, 3, 4, 5}, 4},
  };
  return all;
}

test::PlainGraph graph_of(const std::vector<float>& weights) {
  test::PlainGraph graph;
  for (NodeId v = 0; v < kNodes; ++v) {
    graph.original_ids.push_back(v);
    for (std::size_t j = 0; j < weights.size(); ++j) {
      graph.edge_ids.push_back(static_cast<EdgeId>(graph.indices.size()));
      graph.indices.push_back((v + static_cast<NodeId>(j)) % kNodes);
      graph.weights.push_back(weights[j]);
    }
    graph.indptr.push_back(static_cast<Count>(graph.indices.size()));
  }
  return graph;
}

/// Calls visit(positions of the picks) for every node of every step.
template <typename Visit>
void for_each_draw(const Case& c, const test::MethodCase& method, Visit&& visit) {
  const test::ViewOwner owner(graph_of(c.weights), {});
  ThreadPool pool(2);
  SamplerOptions options = method.options({c.fanout}, kNodes);
  options.transpose = false;
  const auto sampler = make_sampler(owner.view(), options, {}, 1, pool);
  std::vector<NodeId> seeds(kNodes);
  std::iota(seeds.begin(), seeds.end(), 0);
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const auto blocks = test::plain_blocks(sampler->sample(seeds, {.seed = 9, .step = step}, 0, {}), {});
    const test::PlainBlock& block = blocks.front();
    for (std::size_t v = 0; v < kNodes; ++v) {
      Positions positions;
      for (Count e = block.indptr[v]; e < block.indptr[v + 1]; ++e)
        positions.push_back(at(block.edge_ids[at(e)]) % c.weights.size());
      visit(positions);
    }
  }
}

/// Adds the probability of every set that successive draws without replacement may give.
void add_sets(const std::vector<float>& weights, int left, double probability, Positions& drawn,
              std::map<Positions, double>& sets) {
  double rest = 0;
  for (std::size_t p = 0; p < weights.size(); ++p)
    if (std::ranges::find(drawn, p) == drawn.end()) rest += weights[p];
  if (left == 0 || rest == 0) {
    Positions set = drawn;
    std::ranges::sort(set);
    sets[set] += probability;
    return;
  }
  for (std::size_t p = 0; p < weights.size(); ++p) {
    if (weights[p] == 0 || std::ranges::find(drawn, p) != drawn.end()) continue;
    drawn.push_back(p);
    add_sets(weights, left - 1, probability * weights[p] / rest, drawn, sets);
    drawn.pop_back();
  }
}

/// The quantile of chi-square at 1 - 1e-6 (Wilson and Hilferty). Keys are fixed, so no test can flicker.
double chi_square_bound(double degrees) {
  const double t = 2 / (9 * degrees);
  return degrees * std::pow(1 - t + 4.7534 * std::sqrt(t), 3);
}

struct Cell {
  double observed, expected;
};

/// Cells that expect fewer than five are counted together.
void expect_fits(const std::vector<Cell>& cells) {
  Cell rare{0, 0};
  double chi_square = 0;
  int used = 0;
  const auto add = [&](const Cell& cell) {
    const double difference = cell.observed - cell.expected;
    chi_square += difference * difference / cell.expected;
    ++used;
  };
  for (const Cell& cell : cells) {
    if (cell.expected == 0) {
      EXPECT_EQ(cell.observed, 0) << "the impossible was drawn";
    } else if (cell.expected < 5) {
      rare.observed += cell.observed;
      rare.expected += cell.expected;
    } else {
      add(cell);
    }
  }
  if (rare.expected >= 1) add(rare);
  if (used > 1) {
    EXPECT_LT(chi_square, chi_square_bound(used - 1)) << used << " cells";
  }
}

class WeightedStatistics : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Weights, WeightedStatistics, testing::ValuesIn(cases()),
                         testing::PrintToStringParamName());

// The whole distribution over sets, and with it all inclusion probabilities, single and pairwise.
TEST_P(WeightedStatistics, SetsWithoutReplacementAreThoseOfSuccessiveDraws) {
  std::map<Positions, double> probabilities, observed;
  Positions none;
  add_sets(GetParam().weights, GetParam().fanout, 1, none, probabilities);
  for_each_draw(GetParam(), {Method::weighted}, [&](const Positions& set) { ++observed[set]; });
  std::vector<Cell> cells;
  for (const auto& [set, probability] : probabilities) cells.push_back({observed[set], kDraws * probability});
  expect_fits(cells);
  for (const auto& [set, count] : observed) EXPECT_TRUE(probabilities.contains(set));
}

/// Draws of single picks, and of neighboring pairs of picks.
void expect_independent_draws(const Case& c, const test::MethodCase& method,
                              const std::vector<float>& shares) {
  const std::size_t degree = shares.size();
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<double> single(degree), pairs(degree * degree);
  for_each_draw(c, method, [&](const Positions& drawn) {
    ASSERT_EQ(drawn.size(), at(c.fanout));
    for (std::size_t j = 0; j < drawn.size(); ++j) {
      ++single[drawn[j]];
      if (j > 0) ++pairs[drawn[j - 1] * degree + drawn[j]];
    }
  });
  std::vector<Cell> cells, pair_cells;
  for (std::size_t p = 0; p < degree; ++p) {
    cells.push_back({single[p], kDraws * c.fanout * shares[p] / total});
    for (std::size_t q = 0; q < degree; ++q)
      pair_cells.push_back(
          {pairs[p * degree + q], kDraws * (c.fanout - 1) * shares[p] / total * shares[q] / total});
  }
  expect_fits(cells);
  expect_fits(pair_cells);
}

TEST_P(WeightedStatistics, DrawsWithReplacementAreIndependent) {
  const Case& c = GetParam();
  const float largest = *std::ranges::max_element(c.weights);
  std::vector<float> shares;
  for (const float w : c.weights) shares.push_back(w / largest);  // no sum overflows
  expect_independent_draws(c, {Method::weighted, true}, shares);
}

TEST_P(WeightedStatistics, UniformDrawsWithReplacementAreIndependent) {
  const Case& c = GetParam();
  expect_independent_draws(c, {Method::uniform, true}, std::vector<float>(c.weights.size(), 1.0f));
}

}  // namespace
}  // namespace strata::sampling
