// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/joined_layer.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/blocks.hpp"

namespace strata::nn {
namespace {

using test::OwnedBlock;
using test::random_block;
using test::random_rows;

constexpr Count kDst = 50, kSrc = 120;

/// The formula in float64, by libtorch's own operators.
at::Tensor reference(const at::Tensor& x, const LayerWeights& weights, const OwnedBlock& block,
                     const LayerRule& rule) {
  const auto f64 = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
  const at::Tensor rows = rule.relu ? f64(x).relu() : f64(x);
  const at::Tensor counts = f64(block.indptr.diff()).clamp_min(1).unsqueeze(1);
  at::Tensor sums = at::zeros({kDst, x.size(1)}, at::kDouble)
                        .index_add(0, block.edge_dst(), rows.index_select(0, block.indices.to(at::kLong)));
  if (rule.mean) sums = sums.div(counts);
  const at::Tensor out =
      sums.mm(f64(weights.neighbors).t()).add(rows.narrow(0, 0, kDst).mm(f64(weights.root).t()));
  return weights.bias.defined() ? out.add(f64(weights.bias)) : out;
}

/// Over mean or sum, ReLU, and a bias.
class JoinedLayer : public testing::TestWithParam<std::tuple<bool, bool, bool>> {
 protected:
  void SetUp() override {
    rule = {.mean = std::get<0>(GetParam()), .relu = std::get<1>(GetParam())};
    weights = {random_rows(7, 5, 2).requires_grad_(), random_rows(7, 5, 3).requires_grad_(), {}};
    inputs = {x, weights.neighbors, weights.root};
    if (!std::get<2>(GetParam())) return;
    weights.bias = random_rows(1, 7, 4).squeeze(0).requires_grad_();
    inputs.push_back(weights.bias);
  }
  at::Tensor layer() const { return joined_layer(x, weights, edges, rule); }
  at::Tensor expected() const { return reference(x, weights, block, rule); }

  OwnedBlock block = random_block({.num_dst = kDst, .num_src = kSrc, .max_degree = 9, .seed = 1});
  LayerEdges edges{block.indptr, block.indices, block.transposed_indptr, block.transposed_indices};
  LayerRule rule;
  at::Tensor x = random_rows(kSrc, 5, 5).requires_grad_();
  at::Tensor grad = random_rows(kDst, 7, 6);
  LayerWeights weights;
  std::vector<at::Tensor> inputs;
};

void expect_close(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), expected[i].to(at::kDouble), 1e-5, 1e-5))
        << "tensor " << i;
}

TEST_P(JoinedLayer, FollowsItsFormulaWithItsGradients) {
  const at::Tensor out = layer();
  expect_close({out}, {expected()});
  expect_close(torch::autograd::grad({out}, inputs, {grad}),
               torch::autograd::grad({expected()}, inputs, {grad.to(at::kDouble)}));
}

TEST_P(JoinedLayer, HasGradientsOfGradients) {
  const auto second = [&](const at::Tensor& out, const at::Tensor& of) {
    at::Tensor total = at::zeros({}, at::kDouble);
    for (const at::Tensor& one : torch::autograd::grad({out}, inputs, {of}, true, true))
      total = total.add(one.to(at::kDouble).square().sum());
    return torch::autograd::grad({total}, {x, weights.root});
  };
  const auto found = second(layer(), grad), wanted = second(expected(), grad.to(at::kDouble));
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), wanted[i].to(at::kDouble), 1e-4, 1e-3))
        << "tensor " << i;
}

TEST_P(JoinedLayer, GivesSomeInputsNoGradient) {
  const at::Tensor rows = x.detach();
  const at::Tensor out = joined_layer(rows, weights, {block.indptr, block.indices, {}, {}}, rule);
  expect_close(torch::autograd::grad({out}, {weights.root}, {grad}),
               torch::autograd::grad({expected()}, {weights.root}, {grad.to(at::kDouble)}));
  EXPECT_FALSE(rows.grad().defined());
}

TEST_P(JoinedLayer, SaysThatAGradientNeedsTransposedLists) {
  const at::Tensor out = joined_layer(x, weights, {block.indptr, block.indices, {}, {}}, rule);
  EXPECT_THROW(torch::autograd::grad({out}, {x}, {grad}), c10::Error);
}

TEST_P(JoinedLayer, RefusesListsWithGaps) {
  const at::Tensor pairs = at::zeros({block.indices.size(0), 2}, at::kInt);
  EXPECT_THROW(joined_layer(x, weights, {block.indptr, pairs.select(1, 0), {}, {}}, rule), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Rules, JoinedLayer,
                         testing::Combine(testing::Bool(), testing::Bool(), testing::Bool()));

}  // namespace
}  // namespace strata::nn
