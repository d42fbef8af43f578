// SPDX-License-Identifier: Apache-2.0
#include "task/target_loss.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "strata/util/label_shape.hpp"
#include "support/blocks.hpp"
#include "task/exact_sum.hpp"

namespace strata::train {
namespace {

constexpr Count kSeeds = 30, kColumns = 3;
const std::vector<graph::TargetScale> kScales = {{0, 1}, {50000, 20000}, {-3, 0.01}};

/// Words of targets near the scales; column 1 of every third seed is missing, and all of seed 4.
at::Tensor some_targets() {
  const at::Tensor noise = test::random_rows(kSeeds, kColumns, 8).mul_(3);
  at::Tensor words = at::full({kSeeds, kColumns}, kMissingTarget, at::kInt);
  for (Count i = 0; i < kSeeds; ++i)
    for (Count c = 0; c < kColumns; ++c) {
      const auto& scale = kScales[at(c)];
      const auto value = static_cast<float>(noise[i][c].item<double>() * scale.deviation + scale.mean);
      if (i != 4 && !(c == 1 && i % 3 == 0)) words[i][c] = std::bit_cast<std::int32_t>(value);
    }
  return words;
}

double naive(LossChoice kind, const at::Tensor& outputs, const at::Tensor& words) {
  double sum = 0;
  for (Count i = 0; i < kSeeds; ++i)
    for (Count c = 0; c < kColumns; ++c) {
      const auto word = words[i][c].item<std::int32_t>();
      if (word == kMissingTarget) continue;
      const double wanted = (std::bit_cast<float>(word) - kScales[at(c)].mean) / kScales[at(c)].deviation;
      const double error = std::abs(outputs[i][c].item<double>() - wanted);
      const double huber = error < 1 ? error * error / 2 : error - 0.5;
      const double pinball = (outputs[i][c].item<double>() > wanted ? 1 - kind.value : kind.value) * error;
      sum += kind == LossKind::mse     ? error * error
             : kind == LossKind::mae   ? error
             : kind == LossKind::huber ? huber
                                       : pinball;
    }
  return sum / kColumns;
}

class TargetLossTest : public testing::TestWithParam<LossChoice> {};

TEST_P(TargetLossTest, EqualsTheNaiveSum) {
  const TargetLoss loss(GetParam(), kScales, at::kCPU);
  const at::Tensor outputs = test::random_rows(kSeeds, kColumns, 2), words = some_targets();
  const Loss::Result result = loss(outputs, words, at::full({}, 40.0));
  const double expected = naive(GetParam(), outputs, words);
  EXPECT_NEAR(result.outcome[0].item<double>(), expected, 1e-4 * expected);
  EXPECT_EQ(result.outcome[1].item<float>(), 0);
  EXPECT_EQ(result.outcome[2].item<float>(), kSeeds - 1);
  EXPECT_TRUE(result.gradient[4].eq(0).all().item<bool>()) << "a seed without targets";
  EXPECT_EQ(result.gradient[3][1].item<float>(), 0) << "a target that is missing";
  constexpr double kStep = 1e-3;
  for (const auto& [i, c] : {std::pair{0, 0}, {5, 1}, {29, 2}}) {
    const at::Tensor up = outputs.clone(), down = outputs.clone();
    up[i][c] += kStep;
    down[i][c] -= kStep;
    const double slope = (naive(GetParam(), up, words) - naive(GetParam(), down, words)) / (2 * kStep) / 40;
    EXPECT_NEAR(result.gradient[i][c].item<double>(), slope, 2e-4 * std::abs(slope) + 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TargetLossTest,
                         testing::Values(LossKind::mse, LossKind::mae, LossKind::huber, LossKind::quantile,
                                         LossChoice(LossKind::quantile, 0.8)));

TEST(ExactSum, DoesNotDependOnOrder) {
  std::mt19937 random(3);
  std::vector<float> numbers = {1e30f, -1e30f, 1e-40f, -0.0f, std::numeric_limits<float>::denorm_min()};
  for (int i = 0; i < 1000; ++i) numbers.push_back(static_cast<float>(random()) * (i % 2 ? 1e-9f : -1e9f));
  std::vector<double> sums;
  for (int order = 0; order < 3; ++order) {
    std::ranges::shuffle(numbers, random);
    ExactSum sum;
    for (const float number : numbers) sum.add(number);
    sums.push_back(sum.value());
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
  long double exact = 0;
  for (const float number : numbers)
    if (std::abs(number) < 1e29f) exact += number;
  EXPECT_NEAR(sums[0] / static_cast<double>(exact), 1, 1e-12);

  for (const float number : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    ExactSum sum;
    sum.add(number);
    EXPECT_TRUE(std::isnan(sum.value()));
  }
}

}  // namespace
}  // namespace strata::train
