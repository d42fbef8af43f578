// SPDX-License-Identifier: Apache-2.0
#include "kernels/bf16.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention.hpp"
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

at::Tensor poisoned(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::full(sizes, NAN, at::TensorOptions().dtype(type));
}

struct Attention {
  Count heads, head_cols;
  double dropout = 0;
};

/// What both kinds of attention have in common: rows that are bf16 numbers, and dropout by ends and relation.
class AttentionInputs {
 public:
  AttentionInputs(const Attention& attention, const OwnedBlock& block, at::ScalarType type)
      : attention_(attention), block_(block), view_(block.view()), type_(type) {}

  at::Tensor rows(Count count, Count parts, std::uint64_t seed) const {
    return random_rows(count, parts * attention_.heads * attention_.head_cols, seed)
        .to(at::kBFloat16)
        .to(type_);
  }
  template <typename Over>
  Over over() const {
    Over over{.edges = {view_.num_dst, view_.indptr, view_.indices},
              .out_edges = {view_.num_src, view_.transposed_indptr, view_.transposed_indices},
              .num_src = view_.num_src,
              .heads = attention_.heads,
              .head_cols = attention_.head_cols,
              .dtype = type_ == at::kFloat ? DType::f32 : DType::bf16};
    const Pass pass{.key = {.seed = 1, .epoch = 2, .step = 3}, .training = true};
    over.dropout = {.rule = make_dropout(attention_.dropout, pass, 1, view_),
                    .dst_ids = view_.src_original_ids + 1,
                    .relations = relations_.const_data_ptr<std::int32_t>()};
    return over;
  }

 private:
  const Attention& attention_;
  const OwnedBlock& block_;
  sampling::Block view_;
  at::ScalarType type_;
  at::Tensor relations_ = at::arange(block_.num_src, at::kInt).remainder(3);
};

/// Results in f32, and rows of results.
struct Attended {
  std::vector<at::Tensor> sums, rows;
};

Attended attend_by_scores(const Attention& attention, const OwnedBlock& block, at::ScalarType type) {
  const AttentionInputs inputs(attention, block, type);
  const at::Tensor rows = inputs.rows(block.num_src, 1, 1), grad_out = inputs.rows(block.num_dst, 1, 2),
                   src_scores = random_rows(block.num_src, attention.heads, 3),
                   dst_scores = random_rows(block.num_dst, attention.heads, 4);
  auto over = inputs.over<EdgeAttention>();
  over.rows = rows.const_data_ptr();
  over.src_scores = src_scores.const_data_ptr<float>();
  over.dst_scores = dst_scores.const_data_ptr<float>();
  over.self_loops = false;
  const Attended of{.sums = {poisoned(dst_scores.sizes()), poisoned(dst_scores.sizes()),
                             poisoned(src_scores.sizes()), poisoned(dst_scores.sizes())},
                    .rows = {poisoned(grad_out.sizes(), type), poisoned(rows.sizes(), type)}};
  const AttentionKernels& kernels = cpu_attention_kernels();
  kernels.forward(
      EdgeAttentionForward{over, of.sums[0].mutable_data_ptr<float>(), of.rows[0].mutable_data_ptr()},
      nullptr);
  kernels.backward(EdgeAttentionGrad{.over = over,
                                     .log_sums = of.sums[0].const_data_ptr<float>(),
                                     .grad_out = grad_out.const_data_ptr(),
                                     .means = of.sums[1].mutable_data_ptr<float>(),
                                     .grad_src_scores = of.sums[2].mutable_data_ptr<float>(),
                                     .grad_dst_scores = of.sums[3].mutable_data_ptr<float>(),
                                     .grad_rows = of.rows[1].mutable_data_ptr()},
                   nullptr);
  return of;
}

Attended attend_by_dots(const Attention& attention, const OwnedBlock& block, at::ScalarType type) {
  const AttentionInputs inputs(attention, block, type);
  const at::Tensor rows = inputs.rows(block.num_src, 2, 1), grad_out = inputs.rows(block.num_dst, 1, 2),
                   queries = inputs.rows(block.num_dst, 1, 3);
  auto over = inputs.over<DotAttention>();
  over.rows = rows.const_data_ptr();
  over.queries = queries.const_data_ptr();
  const Attended of{
      .sums = {poisoned({block.num_dst, attention.heads}), poisoned({block.num_dst, attention.heads})},
      .rows = {poisoned(queries.sizes(), type), poisoned(queries.sizes(), type),
               poisoned(rows.sizes(), type)}};
  const AttentionKernels& kernels = cpu_attention_kernels();
  kernels.forward(
      DotAttentionForward{over, of.sums[0].mutable_data_ptr<float>(), of.rows[0].mutable_data_ptr()},
      nullptr);
  kernels.backward(DotAttentionGrad{.over = over,
                                    .log_sums = of.sums[0].const_data_ptr<float>(),
                                    .grad_out = grad_out.const_data_ptr(),
                                    .means = of.sums[1].mutable_data_ptr<float>(),
                                    .grad_queries = of.rows[1].mutable_data_ptr(),
                                    .grad_rows = of.rows[2].mutable_data_ptr()},
                   nullptr);
  return of;
}

TEST(Bf16, AttendsInF32) {
  const OwnedBlock block = random_block({.num_dst = 60, .num_src = 150, .max_degree = 12, .seed = 3});
  for (const Attention& attention :
       {Attention{1, 1}, Attention{4, 16, 0.4}, Attention{3, 37}, Attention{2, 5, 0.2}})
    for (const auto attend : {attend_by_scores, attend_by_dots}) {
      const Attended wide = attend(attention, block, at::kFloat),
                     got = attend(attention, block, at::kBFloat16);
      for (std::size_t i = 0; i < wide.sums.size(); ++i) EXPECT_TRUE(got.sums[i].equal(wide.sums[i])) << i;
      for (std::size_t i = 0; i < wide.rows.size(); ++i) {
        EXPECT_FALSE(wide.rows[i].isnan().any().item<bool>()) << i;
        EXPECT_TRUE(got.rows[i].equal(wide.rows[i].to(at::kBFloat16))) << i;
      }
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
