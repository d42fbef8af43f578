// SPDX-License-Identifier: Apache-2.0
#include "fused/gat_stack.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "strata/cuda/device.hpp"
#include "support/blocks.hpp"

namespace strata::nn {
namespace {

using test::OwnedBlock;
using test::random_block;
using test::random_rows;

const c10::Device kGpu(c10::kCUDA, 0);
constexpr Count kInputs = 900, kFrontier = 260, kSeeds = 70;

struct Case {
  std::int64_t in_cols, hidden;
  std::vector<int> heads;
  std::int64_t classes;
  int max_degree = 9;
  double attention_dropout = 0, input_dropout = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.in_cols << " to " << c.hidden << ", " << testing::PrintToString(c.heads) << " heads, "
             << c.classes << " classes, degree " << c.max_degree << ", attention dropout "
             << c.attention_dropout << ", input dropout " << c.input_dropout;
}

ModelOptions options_of(const Case& c) {
  return {.kind = ModelKind::gat,
          .in_cols = c.in_cols,
          .hidden = c.hidden,
          .out_cols = c.classes,
          .num_layers = 2,
          .heads = c.heads,
          .attention_dropout = c.attention_dropout,
          .dropout = 0.3,
          .input_dropout = c.input_dropout,
          .seed = 5};
}

/// The same in-neighbors a fixed number of entries apart, as a GPU's sampler gives them.
struct StridedBlock {
  int stride = 0;
  at::Tensor counts, indices;

  StridedBlock(const OwnedBlock& block, const c10::Device& device) {
    const at::Tensor degrees = block.indptr.diff();
    stride = static_cast<int>(degrees.max().item<std::int64_t>()) + 1;
    counts = degrees.to(at::kInt);
    indices = at::full({block.num_dst * stride}, -1, block.indices.options());
    for (Count v = 0; v < block.num_dst; ++v) {
      const auto begin = block.indptr[v].item<std::int64_t>(), size = degrees[v].item<std::int64_t>();
      indices.narrow(0, v * stride, size).copy_(block.indices.narrow(0, begin, size));
    }
    counts = counts.to(device);
    indices = indices.to(device);
  }
  sampling::Block view(sampling::Block block) const {
    block.indptr = nullptr;
    block.stride = stride;
    block.counts = counts.const_data_ptr<std::int32_t>();
    block.indices = indices.const_data_ptr<std::int32_t>();
    return block;
  }
};

struct Outcome {
  at::Tensor logits;
  std::vector<at::Tensor> gradients;
};

const Pass kPass{.key = {.seed = 1, .epoch = 0, .step = 3}, .training = true};

Outcome outcome_of(BlockModel& model, const at::Tensor& logits) {
  logits.square().sum().backward();
  Outcome outcome{logits.detach().cpu(), {}};
  for (const at::Tensor& parameter : model.parameters()) outcome.gradients.push_back(parameter.grad().cpu());
  return outcome;
}

/// What at::empty finds on the GPU next is NaN in any floating-point type.
void poison_gpu() {
  for (const std::int64_t bytes : {1 << 16, 1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 24, 1 << 26}) {
    std::vector<at::Tensor> blocks;
    for (int i = 0; i < 8; ++i)
      blocks.push_back(at::full({bytes}, 255, at::TensorOptions().dtype(at::kByte).device(kGpu)));
  }
}

struct Blocks {
  OwnedBlock outer, inner;

  explicit Blocks(int max_degree)
      : outer(random_block({.num_dst = kFrontier, .num_src = kInputs, .max_degree = max_degree, .seed = 1})),
        inner(random_block({.num_dst = kSeeds, .num_src = kFrontier, .max_degree = max_degree, .seed = 2})) {}
  Blocks(OwnedBlock first, OwnedBlock second) : outer(std::move(first)), inner(std::move(second)) {}
  Blocks to(const c10::Device& device) const { return {outer.to(device), inner.to(device)}; }
  sampling::MiniBatch batch() const { return {.blocks = {outer.view(), inner.view()}, .num_seeds = kSeeds}; }
};

std::shared_ptr<BlockModel> model_on_gpu(const ModelOptions& options) {
  auto model = make_model(options);
  model->to(kGpu);
  return model;
}

void expect_near(const Outcome& actual, const Outcome& expected, double tolerance) {
  const auto difference = [](const at::Tensor& a, const at::Tensor& b) {
    EXPECT_TRUE(a.isfinite().all().item<bool>());
    return a.sub(b).norm().item<double>() / (1e-3 + b.norm().item<double>());
  };
  EXPECT_LE(difference(actual.logits, expected.logits), tolerance);
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (std::size_t i = 0; i < expected.gradients.size(); ++i)
    EXPECT_LE(difference(actual.gradients[i], expected.gradients[i]), tolerance) << "parameter " << i;
}

void expect_equal(const Outcome& actual, const Outcome& expected) {
  EXPECT_TRUE(actual.logits.equal(expected.logits));
  for (std::size_t i = 0; i < expected.gradients.size(); ++i)
    EXPECT_TRUE(actual.gradients[i].equal(expected.gradients[i])) << "parameter " << i;
}

/// How near a hidden value comes to 0, where the gradient of ReLU jumps. Negated parameters show the negative
/// ones.
double distance_from_kink(const ModelOptions& options, const Blocks& blocks, const at::Tensor& rows) {
  const at::NoGradGuard no_grad;
  const auto model = make_model(options);
  double least = HUGE_VAL;
  for (int side = 0; side < 2; ++side) {
    const at::Tensor hidden = model->forward_layer(0, rows, blocks.outer.view(), kPass);
    const at::Tensor above = hidden.masked_select(hidden.gt(0));
    if (above.numel() > 0) least = std::min(least, above.min().item<double>());
    for (const auto& parameter : model->named_parameters()) {
      if (parameter.key().starts_with("convs.0.")) parameter.value().neg_();
    }
  }
  return least;
}

/// Rows for which rounding flips no ReLU.
at::Tensor rows_for(const Case& c, const Blocks& blocks) {
  constexpr double kRounding = 2e-6;
  for (std::uint64_t seed = 1;; ++seed) {
    const at::Tensor rows = random_rows(kInputs, c.in_cols, seed);
    if (distance_from_kink(options_of(c), blocks, rows) > kRounding) return rows;
  }
}

class GatStackTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  const Blocks blocks_{GetParam().max_degree};
  const at::Tensor rows_ = rows_for(GetParam(), blocks_);

  Outcome on_cpu() const {
    const auto model = make_model(options_of(GetParam()));
    return outcome_of(*model, model->forward(rows_, blocks_.batch(), kPass));
  }
  Outcome on_gpu(const sampling::MiniBatch& batch, bool bf16 = false) const {
    ModelOptions options = options_of(GetParam());
    options.bf16 = bf16;
    const auto model = model_on_gpu(options);
    EXPECT_TRUE(model->traits().takes_strided);
    const at::Tensor rows = rows_.to(kGpu);
    poison_gpu();
    const at::Tensor logits = model->forward(rows, batch, kPass);
    poison_gpu();  // what the backward pass reads must have been kept
    return outcome_of(*model, logits);
  }
};

TEST_P(GatStackTest, AgreesWithTheCpuAndRepeats) {
  const Blocks moved = blocks_.to(kGpu);
  const Outcome actual = on_gpu(moved.batch());
  expect_near(actual, on_cpu(), 1e-4);
  expect_equal(on_gpu(moved.batch()), actual);
}

TEST_P(GatStackTest, ReadsStridedListsAsPackedOnes) {
  const Blocks moved = blocks_.to(kGpu);
  const StridedBlock outer(blocks_.outer, kGpu), inner(blocks_.inner, kGpu);
  sampling::MiniBatch batch = moved.batch();
  batch.blocks = {outer.view(batch.blocks[0]), inner.view(batch.blocks[1])};
  expect_equal(on_gpu(batch), on_gpu(moved.batch()));
}

TEST_P(GatStackTest, TrainsInBf16NearF32) {
  const Blocks moved = blocks_.to(kGpu);
  const Outcome bf16 = on_gpu(moved.batch(), true), f32 = on_gpu(moved.batch());
  expect_near(bf16, f32, 0.1);
  EXPECT_FALSE(bf16.logits.equal(f32.logits)) << "nothing was rounded";
  expect_equal(on_gpu(moved.batch(), true), bf16);
}

// Rows of all nodes, read by global ids: the frontier's ids are 3 v, and inputs beyond it follow.
TEST_P(GatStackTest, ReadsRowsOfATableInPlace) {
  if (GetParam().attention_dropout > 0 || GetParam().input_dropout > 0)
    GTEST_SKIP() << "the model gathers its rows";
  const at::Tensor ids = at::arange(kInputs, at::kLong).mul(3);
  const at::Tensor table = at::full({3 * kInputs, GetParam().in_cols + 4}, std::nanf(""));
  table.narrow(1, 0, GetParam().in_cols).index_copy_(0, ids, rows_);
  const at::Tensor gpu_table = table.to(kGpu), gpu_ids = ids.to(kGpu);
  const Blocks moved = blocks_.to(kGpu);
  const at::Tensor indices = ids.index_select(0, blocks_.outer.indices.to(at::kLong)).to(at::kInt).to(kGpu);
  sampling::MiniBatch batch = moved.batch();
  batch.blocks[0].indices = indices.const_data_ptr<std::int32_t>();
  batch.blocks[0].global_indices = true;
  batch.blocks[0].num_src = kFrontier;
  batch.blocks[0].src_nodes = gpu_ids.const_data_ptr<NodeId>();
  batch.blocks[0].transposed_indptr = nullptr;
  const auto model = model_on_gpu(options_of(GetParam()));
  ASSERT_TRUE(model->traits().reads_table);
  poison_gpu();
  const at::Tensor rows = gpu_table.narrow(1, 0, GetParam().in_cols);
  expect_equal(outcome_of(*model, model->forward(rows, batch, kPass)), on_gpu(moved.batch()));
}

INSTANTIATE_TEST_SUITE_P(Cases, GatStackTest,
                         testing::Values(Case{100, 256, {4}, 47}, Case{100, 256, {4}, 47, 40, 0.4},
                                         Case{20, 16, {2}, 5}, Case{8, 12, {1}, 3, 0}, Case{50, 64, {4}, 7},
                                         Case{33, 30, {3}, 4, 12, 0.2}, Case{64, 160, {8}, 10},
                                         Case{64, 160, {4}, 10, 9, 0, 0.4}, Case{32, 60, {6}, 9, 20},
                                         Case{132, 136, {1}, 6, 70}, Case{300, 384, {4}, 6, 5, 0.1},
                                         Case{256, 256, {4}, 2}, Case{1, 9, {1}, 2},
                                         Case{64, 160, {8, 2}, 10}, Case{20, 30, {1, 5}, 7, 9, 0.3}));

TEST(GatStack, LeavesWideInputsAndManyHeadsToTheMapOfAllRows) {
  EXPECT_TRUE(gat_stack_pays({.in_cols = 100, .hidden = 256, .heads = 4, .num_layers = 3}));
  EXPECT_FALSE(gat_stack_pays({.in_cols = 602, .hidden = 1024, .heads = 1, .num_layers = 3}));
  EXPECT_FALSE(gat_stack_pays({.in_cols = 500, .hidden = 256, .heads = 4, .num_layers = 3}));
  EXPECT_FALSE(gat_stack_pays({.in_cols = 8, .hidden = 144, .heads = 9, .num_layers = 2}));
  EXPECT_FALSE(gat_stack_pays({.in_cols = 100, .hidden = 130, .heads = 1, .num_layers = 2}));
  EXPECT_TRUE(gat_stack_pays({.in_cols = 100, .hidden = 130, .heads = 1, .num_layers = 1}));
}

}  // namespace
}  // namespace strata::nn
