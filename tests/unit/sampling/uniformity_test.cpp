// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

constexpr Count kNodes = 4000;
constexpr std::uint32_t kSteps = 10;

struct PickCase {
  Count degree;
  int fanout;
};

std::ostream& operator<<(std::ostream& out, const PickCase& c) { return out << c.fanout << "of" << c.degree; }

/// Every node has the same degree; edge e is position e % degree.
test::PlainGraph regular_graph(Count degree) {
  test::PlainGraph graph;
  for (NodeId v = 0; v < kNodes; ++v) {
    graph.original_ids.push_back(v);
    for (Count j = 0; j < degree; ++j) {
      graph.edge_ids.push_back(static_cast<EdgeId>(graph.indices.size()));
      graph.indices.push_back((v + j) % kNodes);
    }
    graph.indptr.push_back(static_cast<Count>(graph.indices.size()));
  }
  return graph;
}

/// How often each position and each pair of positions was included in kNodes * kSteps draws.
struct Inclusion {
  std::vector<double> single;             // [degree]
  std::vector<std::vector<double>> pair;  // [degree][degree]
};

Inclusion count_inclusions(const PickCase& c) {
  const test::ViewOwner owner(regular_graph(c.degree), {});
  ThreadPool pool(2);
  const auto sampler =
      make_sampler(owner.view(), {.fanouts = {c.fanout}, .max_seeds = kNodes, .edge_ids = true}, {}, 1, pool);
  const auto seeds = test::random_nodes(kNodes, 0, kNodes, 1);
  const auto degree = at(c.degree);
  Inclusion result{std::vector<double>(degree), std::vector(degree, std::vector<double>(degree))};
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const MiniBatch batch = sampler->sample(seeds, {.seed = 9, .step = step}, 0, {});
    const Block& block = batch.blocks.front();
    for (Count dst = 0; dst < block.num_dst; ++dst) {
      for (Count a = block.indptr[dst]; a < block.indptr[dst + 1]; ++a) {
        const auto p = at(block.edge_ids[a] % c.degree);
        result.single[p] += 1;
        for (Count b = block.indptr[dst]; b < a; ++b) {
          const auto q = at(block.edge_ids[b] % c.degree);
          result.pair[std::min(p, q)][std::max(p, q)] += 1;
        }
      }
    }
  }
  return result;
}

class UniformityTest : public testing::TestWithParam<PickCase> {};

// With k of d drawn without replacement, sum (O - E)^2 / (n p (1 - p)) * (d - 1) / d is chi-square with d - 1
// degrees of freedom. The bound is its quantile at 1e-6 (Wilson and Hilferty); keys are fixed, so the test
// cannot flicker.
TEST_P(UniformityTest, IncludesEveryPositionEquallyOften) {
  const auto [degree, fanout] = GetParam();
  const Inclusion inclusion = count_inclusions(GetParam());
  const double draws = static_cast<double>(kNodes) * kSteps, d = static_cast<double>(degree);
  const double p = fanout / d, expected = draws * p;
  double chi_square = 0;
  for (const double observed : inclusion.single) chi_square += (observed - expected) * (observed - expected);
  chi_square *= (d - 1) / d / (draws * p * (1 - p));
  const double freedom = d - 1, spread = 2 / (9 * freedom);
  EXPECT_LT(chi_square, freedom * std::pow(1 - spread + 4.75 * std::sqrt(spread), 3));
}

/// About a standard normal number where `count` is binomial with a small probability, also where `expected`
/// is low (Anscombe, 1948).
double deviations(double count, double expected) {
  return 2 * (std::sqrt(count + 0.375) - std::sqrt(expected + 0.375));
}

TEST_P(UniformityTest, IncludesEveryPairEquallyOften) {
  const auto [degree, fanout] = GetParam();
  if (fanout < 2) GTEST_SKIP() << "no pairs";
  const Inclusion inclusion = count_inclusions(GetParam());
  const double draws = static_cast<double>(kNodes) * kSteps, d = static_cast<double>(degree);
  const double p = fanout * (fanout - 1.0) / (d * (d - 1));
  for (std::size_t a = 0; a < inclusion.pair.size(); ++a) {
    for (std::size_t b = a + 1; b < inclusion.pair.size(); ++b) {
      EXPECT_LT(std::abs(deviations(inclusion.pair[a][b], draws * p)), 5.5)
          << "positions " << a << " and " << b;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Degrees, UniformityTest,
                         testing::Values(PickCase{3, 1}, PickCase{3, 2}, PickCase{4, 3}, PickCase{5, 1},
                                         PickCase{5, 2}, PickCase{6, 5}, PickCase{7, 3}, PickCase{8, 5},
                                         PickCase{9, 2}, PickCase{9, 8}, PickCase{16, 5}, PickCase{17, 10},
                                         PickCase{33, 15}, PickCase{100, 10}, PickCase{257, 5}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace strata::sampling
