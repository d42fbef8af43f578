// SPDX-License-Identifier: Apache-2.0
#include "kernels/bf16.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "layers/ops.hpp"
#include "strata/nn/model.hpp"
#include "support/blocks.hpp"
#include "support/named_model.hpp"

namespace strata::nn {
namespace {

using test::OwnedBlock;
using test::random_block;
using test::random_rows;

TEST(Bf16, RoundsAsLibtorchDoes) {
  at::Tensor values =
      at::cat({random_rows(100, 100, 1).flatten(), random_rows(10, 10, 2).flatten().mul(1e38),
               at::tensor({0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, 3.4e38f, 1e-40f, std::nanf("")})});
  const at::Tensor expected = values.to(at::kBFloat16);
  for (Count i = 0; i < values.numel(); ++i) {
    const auto rounded = from_f32<Bf16>(values.const_data_ptr<float>()[i]);
    const float back = to_f32(rounded), wanted = expected[i].item<float>();
    EXPECT_TRUE(back == wanted || (std::isnan(back) && std::isnan(wanted))) << values[i].item<float>();
  }
}

/// Sums are f32: only results are rounded.
TEST(Bf16, AggregatesInF32) {
  const OwnedBlock block = random_block({.num_dst = 200, .num_src = 500, .max_degree = 30, .seed = 3});
  for (const Count cols : {1, 7, 64, 130}) {
    const at::Tensor x = random_rows(500, cols, 1), half = x.to(at::kBFloat16);
    for (const BlockScales& scales : {mean_scales(block.view()), gcn_scales(block.view())}) {
      EXPECT_TRUE(aggregate_to(at::kBFloat16, x, block.view(), scales)
                      .equal(aggregate(x, block.view(), scales).to(at::kBFloat16)));
      EXPECT_TRUE(aggregate(half, block.view(), scales)
                      .equal(aggregate(half.to(at::kFloat), block.view(), scales).to(at::kBFloat16)));
    }
  }
}

TEST(Bf16, ActivatesInF32) {
  const OwnedBlock block = random_block({.num_dst = 0, .num_src = 90, .max_degree = 0, .seed = 1});
  const DropoutRule rule =
      make_dropout(0.3, {.key = {.seed = 1, .epoch = 2, .step = 3}, .training = true}, 1, block.view());
  const at::Tensor start = random_rows(90, 37, 1).to(at::kBFloat16),
                   weights = random_rows(90, 37, 2).to(at::kBFloat16);
  at::Tensor bias = random_rows(1, 37, 3).squeeze(0).requires_grad_(true),
             z = start.clone().requires_grad_(true);
  const at::Tensor out = bias_relu_dropout(z.mul(1), bias, rule);
  out.backward(weights);
  at::Tensor wide = start.to(at::kFloat).requires_grad_(true),
             bias_wide = bias.detach().clone().requires_grad_(true);
  const at::Tensor expected = bias_relu_dropout(wide.mul(1), bias_wide, rule);
  expected.backward(weights.to(at::kFloat));
  EXPECT_TRUE(out.equal(expected.to(at::kBFloat16)));
  EXPECT_TRUE(z.grad().equal(wide.grad().to(at::kBFloat16)));
  EXPECT_TRUE(bias.grad().allclose(z.grad().to(at::kFloat).sum(0), 1e-5, 1e-5)) << "the sum is f32";
}

struct Trained {
  at::Tensor logits, evaluated;
  std::vector<at::Tensor> gradients;
};

Trained train(ModelOptions options, bool bf16) {
  options.bf16 = bf16;
  const OwnedBlock outer = random_block({.num_dst = 120, .num_src = 400, .max_degree = 9, .seed = 1});
  const OwnedBlock inner = random_block({.num_dst = 50, .num_src = 120, .max_degree = 9, .seed = 2});
  const sampling::MiniBatch batch{.blocks = {outer.view(), inner.view()}, .num_seeds = 50};
  const auto model = make_model(options);
  const at::Tensor x = random_rows(400, options.in_cols, 1);
  Trained result;
  result.logits = model->forward(x, batch, {.key = {.seed = 1, .epoch = 0, .step = 3}, .training = true});
  result.logits.mul(random_rows(50, 5, 9)).sum().backward();
  for (const at::Tensor& p : model->parameters()) result.gradients.push_back(p.grad());
  result.evaluated = model->forward(x, batch, {}).detach();
  return result;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) {
    EXPECT_EQ(tensor.scalar_type(), at::kFloat);
    parts.push_back(tensor.flatten());
  }
  return at::cat(parts);
}

/// Relative to the whole, for single elements may cancel out. Of gradients, most of it are units close to 0
/// that ReLU passes in one precision and not in the other: 0.3 % of them make 5 % of the norm.
double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  return actual.sub(expected).norm().item<double>() / expected.norm().item<double>();
}

TEST(Bf16, TrainingPassesAreNearThoseOfF32) {
  for (const std::string kind : {"sage", "sage max", "gcn", "gin", "gat"}) {
    for (const std::int64_t hidden : {16, 200}) {  // narrow layers map rows first
      ModelOptions options = test::named_model(kind);
      options.in_cols = 40;
      options.hidden = hidden;
      options.out_cols = 5;
      options.dropout = 0.3;
      options.seed = 4;
      const Trained f32 = train(options, false), bf16 = train(options, true);
      EXPECT_EQ(bf16.logits.scalar_type(), at::kFloat) << kind;
      EXPECT_FALSE(bf16.logits.equal(f32.logits)) << kind << ": nothing was rounded";
      EXPECT_LE(relative_error(bf16.logits, f32.logits), 0.02) << kind;
      EXPECT_LE(relative_error(flat(bf16.gradients), flat(f32.gradients)), 0.1) << kind;
      EXPECT_TRUE(bf16.evaluated.equal(f32.evaluated)) << kind << ": evaluation is f32";
    }
  }
}

}  // namespace
}  // namespace strata::nn
