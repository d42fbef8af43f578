// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "layers/ops.hpp"
#include "strata/util/error.hpp"
#include "support/blocks.hpp"

namespace strata::nn {
namespace {

using test::OwnedBlock;
using test::random_rows;

constexpr Pass kTraining{.key = {.seed = 5, .epoch = 1, .step = 17}, .training = true};

OwnedBlock nodes(Count count) {
  return test::random_block({.num_dst = 0, .num_src = count, .max_degree = 0, .seed = 1});
}

at::Tensor mask(Count rows, Count cols, double probability, const Pass& pass, int hop) {
  const OwnedBlock block = nodes(rows);
  return dropout(at::ones({rows, cols}), make_dropout(probability, pass, hop, block.view())).gt(0);
}

class DropoutRate : public testing::TestWithParam<double> {};

TEST_P(DropoutRate, IsKeptInEveryColumnAndRow) {
  constexpr Count kRows = 4000, kCols = 67;
  const double p = GetParam();
  const at::Tensor dropped = mask(kRows, kCols, p, kTraining, 1).logical_not().to(at::kDouble);
  const auto tolerance = [&](double count) { return 5.0 * std::sqrt(p * (1 - p) / count) + 1.0 / 65536; };
  EXPECT_NEAR(dropped.mean().item<double>(), p, tolerance(kRows * kCols));
  EXPECT_LE(dropped.mean(0).sub(p).abs().max().item<double>(), tolerance(kRows));
  EXPECT_LE(dropped.mean(1).sub(p).abs().max().item<double>(), tolerance(kCols));
}
INSTANTIATE_TEST_SUITE_P(Rates, DropoutRate, testing::Values(0.05, 0.3, 0.5, 0.9));

TEST(Dropout, NeighboringColumnsAndRowsAreIndependent) {
  const at::Tensor m = mask(2000, 64, 0.5, kTraining, 1).to(at::kDouble).sub(0.5);
  EXPECT_LE(std::abs(m.slice(1, 1).mul(m.slice(1, 0, 63)).mean().item<double>()),
            0.25 * 5 / std::sqrt(2000 * 63));
  EXPECT_LE(std::abs(m.slice(0, 1).mul(m.slice(0, 0, 1999)).mean().item<double>()),
            0.25 * 5 / std::sqrt(1999 * 64));
}

TEST(Dropout, KeepsTheExpectation) {
  const OwnedBlock block = nodes(3000);
  const at::Tensor out = dropout(at::ones({3000, 100}), make_dropout(0.3, kTraining, 0, block.view()));
  EXPECT_NEAR(out.mean().item<double>(), 1.0, 5 * std::sqrt(0.3 / 0.7 / 3e5));
}

TEST(Dropout, DependsOnTheNodeNotOnItsRow) {
  OwnedBlock block = nodes(50), reversed = nodes(50);
  reversed.original_ids = block.original_ids.flip(0).contiguous();
  const at::Tensor x = random_rows(50, 37, 1);
  const at::Tensor forward = dropout(x, make_dropout(0.5, kTraining, 2, block.view()));
  const at::Tensor backward = dropout(x.flip(0), make_dropout(0.5, kTraining, 2, reversed.view()));
  EXPECT_TRUE(forward.equal(backward.flip(0)));
}

TEST(Dropout, ChangesWithEveryPartOfTheKey) {
  const at::Tensor first = mask(20, 40, 0.5, kTraining, 1);
  EXPECT_TRUE(first.equal(mask(20, 40, 0.5, kTraining, 1)));
  EXPECT_FALSE(first.equal(mask(20, 40, 0.5, kTraining, 2)));
  for (BatchKey key : {BatchKey{6, 1, 17}, BatchKey{5, 2, 17}, BatchKey{5, 1, 18}}) {
    EXPECT_FALSE(first.equal(mask(20, 40, 0.5, {.key = key, .training = true}, 1)));
  }
}

TEST(Dropout, AWiderRowBeginsLikeANarrowOne) {
  const at::Tensor wide = mask(30, 600, 0.4, kTraining, 1);
  EXPECT_TRUE(wide.slice(1, 0, 41).equal(mask(30, 41, 0.4, kTraining, 1)));
}

TEST(Dropout, IsOffOutsideTraining) {
  const at::Tensor x = random_rows(4, 4, 1);
  EXPECT_TRUE(dropout(x, make_dropout(0.5, {}, 1, nodes(4).view())).equal(x));
}

TEST(Dropout, PassesTheGradientWhereItPassedTheValue) {
  const OwnedBlock block = nodes(60);
  at::Tensor x = at::ones({60, 21}).requires_grad_(true);
  const at::Tensor out = dropout(x, make_dropout(0.5, kTraining, 1, block.view()));
  out.sum().backward();
  EXPECT_TRUE(x.grad().equal(out.detach()));
}

TEST(Dropout, NeedsOriginalIds) {
  sampling::Block block = nodes(3).view();
  block.src_original_ids = nullptr;
  EXPECT_THROW(make_dropout(0.5, kTraining, 1, block), Error);
  EXPECT_NO_THROW(make_dropout(0.0, kTraining, 1, block));
}

TEST(BiasReluDropout, IsTheThreeStepsInOnePass) {
  const OwnedBlock block = nodes(300);
  const DropoutRule rule = make_dropout(0.3, kTraining, 1, block.view());
  const at::Tensor start = random_rows(300, 70, 9), weights = random_rows(300, 70, 10);
  at::Tensor bias = random_rows(1, 70, 11).squeeze(0).requires_grad_(true),
             x = start.clone().requires_grad_(true);
  const at::Tensor fused = bias_relu_dropout(x.mul(1), bias, rule);
  fused.mul(weights).sum().backward();

  at::Tensor bias_plain = bias.detach().clone().requires_grad_(true),
             x_plain = start.clone().requires_grad_(true);
  const at::Tensor plain = dropout(x_plain.add(bias_plain).relu(), rule);
  plain.mul(weights).sum().backward();

  EXPECT_TRUE(fused.equal(plain));
  EXPECT_TRUE(x.grad().equal(x_plain.grad()));
  EXPECT_TRUE(bias.grad().allclose(bias_plain.grad(), 1e-5, 1e-5));
}

TEST(BiasReluDropout, LetsNotANumberThrough) {
  const at::Tensor z = at::full({1, 9}, std::nanf(""));
  EXPECT_TRUE(bias_relu_dropout(z, at::zeros({9}), {}).isnan().all().item<bool>());
}

TEST(AddBias, WorksOnNoRows) {
  at::Tensor bias = at::ones({3}).requires_grad_(true);
  at::Tensor x = at::zeros({0, 3}).requires_grad_(true);
  add_bias(x.mul(1), bias).sum().backward();
  EXPECT_TRUE(bias.grad().equal(at::zeros({3})));
}

}  // namespace
}  // namespace strata::nn
