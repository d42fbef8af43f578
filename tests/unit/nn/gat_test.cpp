// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gat_reference.hpp"
#include "kernels/attention.hpp"
#include "layers/ops.hpp"
#include "strata/nn/model.hpp"
#include "support/blocks.hpp"

namespace strata::nn {
namespace {

using test::OwnedBlock;
using test::random_block;
using test::random_rows;

struct Shape {
  Count num_dst, num_src, in_cols, heads, head_cols;
  int max_degree;
};

/// The first of two layers, so that the heads lie side by side; a ReLU follows.
std::shared_ptr<BlockModel> hidden_layer(const Shape& shape, double attention_dropout = 0.0,
                                         bool residual = false) {
  return make_model({.kind = ModelKind::gat,
                     .in_cols = shape.in_cols,
                     .hidden = shape.heads * shape.head_cols,
                     .out_cols = 3,
                     .num_layers = 2,
                     .heads = {static_cast<int>(shape.heads)},
                     .residual = residual,
                     .attention_dropout = attention_dropout,
                     .dropout = 0,
                     .seed = 9});
}

double difference(const at::Tensor& actual, const at::Tensor& expected) {
  if (expected.numel() == 0) return 0;
  const at::Tensor error = actual.to(at::kDouble).sub(expected.to(at::kDouble)).abs();
  const double size = std::max(1.0, expected.abs().max().item<double>());
  return error.isnan().any().item<bool>() ? HUGE_VAL : error.max().item<double>() / size;
}

constexpr Pass kTrainingPass{.key = {.seed = 3, .epoch = 1, .step = 12}, .training = true};

/// What dropout multiplies the weight of every edge and head by.
at::Tensor kept_edges(const OwnedBlock& block, const DropoutRule& rule, Count heads) {
  const test::EdgeEnds edges = test::attention_edges(block);
  at::Tensor kept = at::zeros({edges.src.numel(), heads}, at::kDouble);
  for (Count e = 0; e < edges.src.numel(); ++e) {
    const Philox4 key = edge_key(rule, edges.dst[e].item<std::int64_t>());
    for (Count head = 0; head < heads; ++head) {
      if (keeps_edge(rule, key, edges.src[e].item<std::int64_t>(), static_cast<std::uint32_t>(head)))
        kept[e][head] = rule.scale();
    }
  }
  return kept;
}

class HiddenGat : public testing::TestWithParam<std::tuple<Shape, double, bool>> {};

TEST_P(HiddenGat, AgreesWithReferenceForwardAndBackward) {
  const auto& [shape, dropout, residual] = GetParam();
  const OwnedBlock block = random_block(
      {.num_dst = shape.num_dst, .num_src = shape.num_src, .max_degree = shape.max_degree, .seed = 4});
  const auto model = hidden_layer(shape, dropout, residual);
  const at::Tensor weights = random_rows(shape.num_dst, shape.heads * shape.head_cols, 6);
  at::Tensor x = random_rows(shape.num_src, shape.in_cols, 1).mul_(2).requires_grad_(true);
  const at::Tensor output = model->forward_layer(0, x, block.view(), kTrainingPass);
  output.mul(weights).sum().backward();
  std::vector<at::Tensor> gradients{x.grad()};
  for (at::Tensor& p : model->parameters()) gradients.push_back(p.grad()), p.mutable_grad() = at::Tensor();

  at::Tensor kept;
  if (dropout > 0)
    kept = kept_edges(block, make_dropout(dropout, kTrainingPass, 1, block.view()), shape.heads);
  at::Tensor x64 = x.detach().to(at::kDouble).requires_grad_(true);
  const at::Tensor expected =
      test::reference_gat(*model, {.heads = shape.heads, .concatenates = true}, x64, block, kept).relu();
  expected.mul(weights).sum().backward();
  EXPECT_LE(difference(output.detach(), expected.detach()), 1e-5);
  EXPECT_LE(difference(gradients[0], x64.grad()), 2e-5) << "x";
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    const at::Tensor p = model->parameters()[i];
    if (!p.grad().defined()) continue;  // of the second layer
    EXPECT_LE(difference(gradients[i + 1], p.grad()), 2e-5) << model->named_parameters().keys()[i];
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, HiddenGat,
    testing::Combine(testing::Values(Shape{40, 100, 7, 1, 5, 9}, Shape{60, 200, 9, 4, 16, 12},
                                     Shape{30, 30, 5, 3, 33, 6}, Shape{20, 50, 6, 9, 1, 8},
                                     Shape{1, 1, 2, 2, 2, 3}, Shape{10, 30, 4, 2, 3, 0},
                                     Shape{0, 0, 6, 2, 4, 0}, Shape{0, 20, 6, 2, 4, 0}),
                     testing::Values(0.0, 0.4), testing::Bool()));

TEST(Gat, IsTheNodesOwnRowWhereItHasNoNeighbors) {
  const OwnedBlock block = test::block_of({{}, {1, 1}}, 2);
  const auto model = make_model({.kind = ModelKind::gat,
                                 .in_cols = 3,
                                 .out_cols = 4,
                                 .num_layers = 1,
                                 .heads = {2},
                                 .dropout = 0,
                                 .seed = 2});
  const at::Tensor x = random_rows(2, 3, 1);
  const at::Tensor mapped = x.mm(model->named_parameters()["convs.0.lin.weight"].t()).view({2, 2, 4}).mean(1);
  EXPECT_LE(difference(model->forward_layer(0, x, block.view(), {}).detach(), mapped.detach()), 1e-6)
      << "an edge of a node to itself adds nothing";
}

TEST(Gat, KeepsItsBalanceWithLargeScores) {
  const OwnedBlock block = random_block({.num_dst = 20, .num_src = 40, .max_degree = 6, .seed = 2});
  const auto model = hidden_layer({20, 40, 5, 2, 4, 6});
  at::Tensor x = random_rows(40, 5, 1).mul_(1e4).requires_grad_(true);
  const at::Tensor output = model->forward_layer(0, x, block.view(), {});
  output.sum().backward();
  EXPECT_TRUE(output.isfinite().all().item<bool>());
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

TEST(Gat, DropsEdgesAtItsRateAndByNodesAlone) {
  const OwnedBlock block = random_block({.num_dst = 3000, .num_src = 9000, .max_degree = 9, .seed = 5});
  const DropoutRule rule = make_dropout(0.3, kTrainingPass, 1, block.view());
  const at::Tensor kept = kept_edges(block, rule, 10).gt(0).to(at::kDouble);
  const double tolerance = 5 * std::sqrt(0.21 / static_cast<double>(kept.size(0)));
  EXPECT_LE(kept.mean(0).sub(0.7).abs().max().item<double>(), tolerance) << "a head's own rate";
  for (const Count other : {1, 7, 8, 9}) {
    const at::Tensor both = kept.select(1, 0).mul(kept.select(1, other)).mean();
    EXPECT_NEAR(both.item<double>(), 0.49, tolerance) << "heads 0 and " << other << " are independent";
  }
}

}  // namespace
}  // namespace strata::nn
