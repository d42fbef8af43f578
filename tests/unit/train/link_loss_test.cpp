// SPDX-License-Identifier: Apache-2.0
#include "task/link_loss.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
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

/// As strata.nn.link_loss has it, in f64.
double naive_loss(LossChoice loss, double link, const std::vector<double>& negatives) {
  const auto count = static_cast<double>(negatives.size());
  const auto log_sigmoid = [](double x) { return -std::log1p(std::exp(-x)); };
  double sum = 0, weights = 0, all = std::exp(link / loss.value);
  for (const double negative : negatives) {
    const double weight = std::exp(loss.value * negative);
    weights += weight;
    all += std::exp(negative / loss.value);
    if (loss == LossKind::bpr) sum -= log_sigmoid(link - negative) / count;
    if (loss == LossKind::margin) sum += std::max(0.0, loss.value - link + negative) / count;
    if (loss == LossKind::adversarial) sum -= weight * log_sigmoid(-negative) / 2;
    if (loss == LossKind::bce) sum -= log_sigmoid(-negative) / (1 + count);
  }
  if (loss == LossKind::bce) return sum - log_sigmoid(link) / (1 + count);
  if (loss == LossKind::adversarial) return sum / weights - log_sigmoid(link) / 2;
  return loss == LossKind::contrastive ? std::log(all) - link / loss.value : sum;
}

const std::vector<std::int64_t> kOtherSources = {1, 2, 4, 5, 5, 0};
const std::vector<float> kWeights = {2, 0.5, 1};

struct Sums {
  double loss = 0, hits = 0;
};

/// The sums over links, with negatives of their sources, too, if `both`.
Sums naive(LossChoice loss, const at::Tensor& rows, bool both) {
  Sums sums;
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    const double score = dot(rows, kSources[i], kDestinations[i]);
    std::vector<double> tails, heads;
    for (std::size_t k = i * kNegatives; k < (i + 1) * kNegatives; ++k) {
      tails.push_back(dot(rows, kSources[i], kDestinations[kSources.size() + k]));
      heads.push_back(dot(rows, kOtherSources[k], kDestinations[i]));
      sums.hits += (tails.back() < score ? 1.0 : 0.0) / kNegatives / (both ? 2 : 1);
      if (both) sums.hits += (heads.back() < score ? 1.0 : 0.0) / kNegatives / 2;
    }
    const double of_tails = naive_loss(loss, score, tails);
    sums.loss += kWeights[i] * (both ? (of_tails + naive_loss(loss, score, heads)) / 2 : of_tails);
    const std::vector<float> negatives(tails.begin(), tails.end());
    EXPECT_NEAR(loss_of_link(loss, static_cast<float>(score), negatives), of_tails, 1e-5);
  }
  return sums;
}

TEST(LinkLoss, EqualsTheNaiveSum) {
  const at::Tensor rows = test::random_rows(6, 4, 2), total = at::full({}, 10.0f);
  const LossChoice losses[] = {LossKind::bce,         LossKind::bpr,
                               LossKind::margin,      {LossKind::margin, 0.3},
                               LossKind::contrastive, {LossKind::contrastive, 0.5},
                               LossKind::adversarial, {LossKind::adversarial, 2}};
  std::vector<float> weights(kWeights.begin(), kWeights.end());
  weights.push_back(0);
  const LinkTable table{.relations = at::zeros({4}, at::kLong), .weights = at::tensor(weights)};
  for (const bool both : {false, true}) {
    std::vector<std::int64_t> sources = kSources;
    if (both) sources.insert(sources.end(), kOtherSources.begin(), kOtherSources.end());
    const LinkBatch batch{.sources = at::tensor(sources),
                          .destinations = at::tensor(kDestinations),
                          .links = at::tensor(std::vector<std::int64_t>{0, 1, 2})};
    for (const LossChoice loss : losses) {
      const LinkLoss link_loss(loss, nn::make_decoder({.kind = nn::DecoderKind::dot, .cols = 4}), table);
      const Loss::Result result = link_loss(rows, batch, total);
      const Sums expected = naive(loss, rows, both);
      EXPECT_NEAR(result.outcome[0].item<double>(), expected.loss, 1e-5);
      EXPECT_NEAR(result.outcome[1].item<double>(), expected.hits, 1e-6);
      EXPECT_EQ(result.outcome[2].item<float>(), 3);
      if (loss == LossKind::adversarial) continue;  // whose weights get no gradient
      constexpr double kStep = 1e-2;
      for (const auto& [i, c] : {std::pair{0, 0}, {3, 1}, {4, 3}}) {
        const at::Tensor up = rows.clone(), down = rows.clone();
        up[i][c] += kStep;
        down[i][c] -= kStep;
        const double slope = (naive(loss, up, both).loss - naive(loss, down, both).loss) / (2 * kStep) / 10;
        EXPECT_NEAR(result.gradient[i][c].item<double>(), slope, 1e-4);
      }
    }
  }
}

// Batches of one shape have places of links that do not exist.
TEST(LinkLoss, LeavesPaddingOut) {
  const at::Tensor rows = test::random_rows(6, 4, 2), total = at::full({}, 10.0f);
  std::vector<std::int64_t> destinations = kDestinations;
  destinations.insert(destinations.begin() + 3, 0);
  destinations.insert(destinations.end(), kNegatives, 0);
  const LinkTable table{.relations = at::zeros({4}, at::kLong)};
  for (const LossChoice loss : {LossKind::bce, LossKind::adversarial}) {
    const LinkLoss link_loss(loss, nn::make_decoder({.kind = nn::DecoderKind::dot, .cols = 4}), table);
    const auto result_of = [&](std::vector<std::int64_t> sources, const std::vector<std::int64_t>& ends,
                               const std::vector<std::int64_t>& links) {
      return link_loss(rows, {at::tensor(sources), at::tensor(ends), at::tensor(links)}, total);
    };
    const Loss::Result result = result_of({0, 3, 3}, kDestinations, {0, 1, 2}),
                       padded = result_of({0, 3, 3, 0}, destinations, {0, 1, 2, 3});
    EXPECT_TRUE(at::allclose(padded.outcome, result.outcome, 1e-6, 1e-7));
    EXPECT_TRUE(at::allclose(padded.gradient, result.gradient, 1e-6, 1e-7));
  }
}

}  // namespace
}  // namespace strata::train
