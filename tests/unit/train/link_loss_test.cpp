// SPDX-License-Identifier: Apache-2.0
#include "task/link_loss.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/blocks.hpp"

namespace strata::train {
namespace {

const std::vector<std::int64_t> kSources = {0, 3, 3},
                                kDestinations = {1, 2, 5, /*of link 0*/ 2, 3, 4, 4, 0, 0};
constexpr std::size_t kNegatives = 2;

double dot(const at::Tensor& rows, std::int64_t a, std::int64_t b) {
  return rows[a].to(at::kDouble).dot(rows[b].to(at::kDouble)).item<double>();
}

double naive(LossKind kind, const at::Tensor& rows) {
  double sum = 0;
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    const double score = dot(rows, kSources[i], kDestinations[i]);
    double loss = kind == LossKind::bpr ? 0 : std::log1p(std::exp(-score));
    for (std::size_t k = 0; k < kNegatives; ++k) {
      const double negative = dot(rows, kSources[i], kDestinations[kSources.size() + i * kNegatives + k]);
      loss += std::log1p(std::exp(kind == LossKind::bpr ? negative - score : negative));
    }
    sum += loss / static_cast<double>(kNegatives + (kind == LossKind::bpr ? 0 : 1));
  }
  return sum;
}

TEST(LinkLoss, EqualsTheNaiveSum) {
  const at::Tensor rows = test::random_rows(6, 4, 2), total = at::full({}, 10.0f);
  const LinkPlaces places{.sources = at::tensor(kSources), .destinations = at::tensor(kDestinations)};
  for (const LossKind kind : {LossKind::bce, LossKind::bpr}) {
    const Loss::Result result = LinkLoss(kind)(rows, places, total);
    EXPECT_NEAR(result.outcome[0].item<double>(), naive(kind, rows), 1e-5);
    EXPECT_EQ(result.outcome[2].item<float>(), 3);
    constexpr double kStep = 1e-2;
    for (const auto& [i, c] : {std::pair{0, 0}, {3, 1}, {4, 3}}) {
      const at::Tensor up = rows.clone(), down = rows.clone();
      up[i][c] += kStep;
      down[i][c] -= kStep;
      const double slope = (naive(kind, up) - naive(kind, down)) / (2 * kStep) / 10;
      EXPECT_NEAR(result.gradient[i][c].item<double>(), slope, 1e-5);
    }
    double by_link = 0, hits = 0;
    for (std::size_t i = 0; i < kSources.size(); ++i) {
      const auto score = static_cast<float>(dot(rows, kSources[i], kDestinations[i]));
      std::vector<float> negatives;
      for (std::size_t k = 0; k < kNegatives; ++k)
        negatives.push_back(
            static_cast<float>(dot(rows, kSources[i], kDestinations[kSources.size() + i * kNegatives + k])));
      by_link += loss_of_link(kind, score, negatives);
      for (const float negative : negatives) hits += negative < score ? 0.5 : 0;
    }
    EXPECT_NEAR(by_link, naive(kind, rows), 1e-5);
    EXPECT_NEAR(result.outcome[1].item<double>(), hits, 1e-6);
  }
}

// Batches of one shape have places of links that do not exist.
TEST(LinkLoss, LeavesPaddingOut) {
  const at::Tensor rows = test::random_rows(6, 4, 2), total = at::full({}, 10.0f);
  std::vector<std::int64_t> sources = kSources, destinations = kDestinations;
  sources.push_back(-1);
  destinations.insert(destinations.begin() + 3, -1);
  destinations.insert(destinations.end(), kNegatives, -1);
  for (const LossKind kind : {LossKind::bce, LossKind::bpr}) {
    const LinkLoss loss(kind);
    const Loss::Result result = loss(rows, {at::tensor(kSources), at::tensor(kDestinations)}, total),
                       padded = loss(rows, {at::tensor(sources), at::tensor(destinations)}, total);
    EXPECT_TRUE(at::allclose(padded.outcome, result.outcome, 1e-6, 1e-7));
    EXPECT_TRUE(at::allclose(padded.gradient, result.gradient, 1e-6, 1e-7));
  }
}

}  // namespace
}  // namespace strata::train
