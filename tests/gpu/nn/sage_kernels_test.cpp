// SPDX-License-Identifier: Apache-2.0
#include "fused/sage_kernels.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "layers/op_support.hpp"
#include "strata/cuda/device.hpp"
#include "support/blocks.hpp"
#include "support/gpu_tensors.hpp"

namespace strata::nn {
namespace {

using test::kGpu;
using test::OwnedBlock;
using test::poisoned;
using test::random_rows;
using test::stream;

constexpr Count kDst = 333, kSrc = 900;
constexpr int kStride = 45;  // more than a warp holds

/// A block in both forms that sampling gives: packed, and with a stride, where unused places name no row.
struct Lists {
  OwnedBlock packed;
  at::Tensor counts, strided;

  explicit Lists(int max_degree)
      : packed(test::random_block({.num_dst = kDst, .num_src = kSrc, .max_degree = max_degree, .seed = 9})) {
    counts = packed.indptr.narrow(0, 1, kDst).sub(packed.indptr.narrow(0, 0, kDst)).to(at::kInt);
    strided = at::full({kDst, kStride}, -1, at::kInt);
    for (Count v = 0; v < kDst; ++v) {
      const Count begin = packed.indptr[v].item<Count>(), size = counts[v].item<Count>();
      strided[v].narrow(0, 0, size).copy_(packed.indices.narrow(0, begin, size));
    }
  }
};

HiddenRows hidden_rows(const at::Tensor& ids, double dropout) {
  return {.relu = true,
          .dropout = {.key = {.seed = 4, .epoch = 1, .step = 2},
                      .hop = 1,
                      .threshold = static_cast<std::uint32_t>(dropout * 65536),
                      .ids = ids.const_data_ptr<NodeId>()}};
}

/// What the kernels read of hidden rows, by the CPU's pass over them.
at::Tensor activated(const at::Tensor& rows, const at::Tensor& ids, double dropout) {
  const at::Tensor out = rows.clone();
  cpu_kernels().activate({.rows = out.size(0),
                          .cols = out.size(1),
                          .relu = true,
                          .dropout = hidden_rows(ids, dropout).dropout,
                          .values = out.mutable_data_ptr<float>()},
                         nullptr);
  return out;
}

double largest_difference(const at::Tensor& gpu, const at::Tensor& cpu) {
  const at::Tensor difference = gpu.cpu().to(at::kFloat).sub(cpu).abs();
  return difference.isnan().any().item<bool>() ? HUGE_VAL : difference.max().item<double>();
}

/// Over columns, longest list and form of the lists.
class SageKernels : public testing::TestWithParam<std::tuple<Count, int, bool>> {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    on_gpu = lists.packed.to(kGpu);
    counts = lists.counts.to(kGpu);
    strided = lists.strided.to(kGpu);
  }
  Count cols() const { return std::get<0>(GetParam()); }
  bool is_strided() const { return std::get<2>(GetParam()); }
  InEdges edges() const {
    if (!is_strided()) {
      return {.indptr = on_gpu.indptr.const_data_ptr<Count>(),
              .indices = on_gpu.indices.const_data_ptr<std::int32_t>()};
    }
    return {.counts = counts.const_data_ptr<std::int32_t>(),
            .stride = kStride,
            .indices = strided.const_data_ptr<std::int32_t>()};
  }

  Lists lists{std::get<1>(GetParam())};
  OwnedBlock on_gpu;
  at::Tensor counts, strided;
  at::Tensor ids = at::arange(kSrc, at::kLong).mul(7919);
};

at::Tensor reference_mean(const Lists& lists, const at::Tensor& rows) {
  const at::Tensor mean = at::zeros({kDst, rows.size(1)});
  for (Count v = 0; v < kDst; ++v) {
    const Count begin = lists.packed.indptr[v].item<Count>(), size = lists.counts[v].item<Count>();
    if (size == 0) continue;
    const at::Tensor list = lists.packed.indices.narrow(0, begin, size).to(at::kLong);
    mean[v].copy_(rows.index_select(0, list).sum(0).div(static_cast<double>(size)));
  }
  return mean;
}

TEST_P(SageKernels, ConcatReadsATableInPlace) {
  const at::Tensor table = random_rows(kSrc, cols(), 1);
  at::Tensor own = at::arange(kDst, at::kLong).mul(2);
  own[3] = -1;
  const at::Tensor own_gpu = own.to(kGpu), in = table.to(kGpu);
  const at::Tensor out = poisoned({kDst, 2 * cols()});
  mean_concat<float, float>({.rows = kDst,
                             .cols = cols(),
                             .in = in.const_data_ptr<float>(),
                             .in_pitch = cols(),
                             .edges = edges(),
                             .own_ids = own_gpu.const_data_ptr<NodeId>(),
                             .out = out.mutable_data_ptr<float>()},
                            stream());
  EXPECT_LE(largest_difference(out.narrow(1, 0, cols()), reference_mean(lists, table)), 1e-5);
  const at::Tensor self = table.index_select(0, own.clamp_min(0));
  self[3].zero_();
  EXPECT_EQ(largest_difference(out.narrow(1, cols(), cols()), self), 0);
}

TEST_P(SageKernels, ConcatAppliesReluAndDropoutToHiddenRows) {
  const at::Tensor products = random_rows(kSrc, cols(), 2), in = products.to(kGpu), gpu_ids = ids.to(kGpu);
  for (const double dropout : {0.0, 0.4}) {
    const at::Tensor rows = activated(products, ids, dropout);
    const at::Tensor out = poisoned({kDst, 2 * cols()});
    MeanConcatOf<float, float> task{.rows = kDst,
                                    .cols = cols(),
                                    .in = in.const_data_ptr<float>(),
                                    .in_pitch = cols(),
                                    .hidden = hidden_rows(gpu_ids, dropout),
                                    .edges = edges(),
                                    .out = out.mutable_data_ptr<float>()};
    mean_concat(task, stream());
    EXPECT_LE(largest_difference(out.narrow(1, 0, cols()), reference_mean(lists, rows)), 1e-5);
    EXPECT_EQ(largest_difference(out.narrow(1, cols(), cols()), rows.narrow(0, 0, kDst)), 0);

    const at::Tensor half = in.to(at::kBFloat16),
                     half_out = poisoned({kDst, 2 * cols()}, at::TensorOptions(kGpu).dtype(at::kBFloat16));
    const at::Tensor half_rows = activated(half.to(at::kFloat).cpu(), ids, dropout);
    mean_concat<Bf16, Bf16>({.rows = kDst,
                             .cols = cols(),
                             .in = elements<Bf16>(half),
                             .in_pitch = cols(),
                             .hidden = task.hidden,
                             .edges = task.edges,
                             .out = mutable_elements<Bf16>(half_out)},
                            stream());
    EXPECT_LE(largest_difference(half_out.narrow(1, 0, cols()), reference_mean(lists, half_rows)), 0.01);
    EXPECT_LE(largest_difference(half_out.narrow(1, cols(), cols()), half_rows.narrow(0, 0, kDst)), 0.01);
  }
}

TEST_P(SageKernels, GatedGradientIsThatOfTheConcat) {
  constexpr double kDropout = 0.4;
  const at::Tensor products = random_rows(kSrc, cols(), 3), grad = random_rows(kDst, 2 * cols(), 4);
  const at::Tensor sums = at::zeros({kSrc, cols()});
  sums.narrow(0, 0, kDst).copy_(grad.narrow(1, cols(), cols()));
  for (Count v = 0; v < kDst; ++v) {
    const Count begin = lists.packed.indptr[v].item<Count>(), size = lists.counts[v].item<Count>();
    const at::Tensor part = grad[v].narrow(0, 0, cols()).div(static_cast<double>(std::max<Count>(1, size)));
    for (Count e = begin; e < begin + size; ++e) sums[lists.packed.indices[e].item<Count>()].add_(part);
  }
  const at::Tensor passed = activated(products, ids, kDropout).ne(0);
  const double scale = hidden_rows(ids, kDropout).dropout.scale();
  const at::Tensor expected = sums.mul(passed.to(at::kFloat)).mul(scale);

  const at::Tensor gpu_ids = ids.to(kGpu), product = products.to(kGpu), gpu_grad = grad.to(kGpu);
  const at::Tensor out = poisoned({kSrc, cols()});
  GatedMeanGradOf<float> task{.rows = kSrc,
                              .cols = cols(),
                              .num_dst = kDst,
                              .transposed_indptr = on_gpu.transposed_indptr.const_data_ptr<Count>(),
                              .transposed_indices = on_gpu.transposed_indices.const_data_ptr<std::int32_t>(),
                              .edges = edges(),
                              .grad = gpu_grad.const_data_ptr<float>(),
                              .product = product.const_data_ptr<float>(),
                              .hidden = hidden_rows(gpu_ids, kDropout),
                              .out = out.mutable_data_ptr<float>()};
  const at::Tensor pieces = poisoned({task.num_pieces(), cols()});
  task.piece_sums = pieces.mutable_data_ptr<float>();
  gated_mean_grad(task, stream());
  EXPECT_LE(largest_difference(out, expected), 1e-4);
  EXPECT_LE(largest_difference(pieces.sum(0), expected.sum(0)), 1e-3);

  const at::Tensor half_grad = gpu_grad.to(at::kBFloat16), half_product = product.to(at::kBFloat16),
                   half_out = poisoned({kSrc, cols()}, at::TensorOptions(kGpu).dtype(at::kBFloat16));
  gated_mean_grad<Bf16>({.rows = kSrc,
                         .cols = cols(),
                         .num_dst = kDst,
                         .transposed_indptr = task.transposed_indptr,
                         .transposed_indices = task.transposed_indices,
                         .edges = task.edges,
                         .grad = elements<Bf16>(half_grad),
                         .product = elements<Bf16>(half_product),
                         .hidden = task.hidden,
                         .out = mutable_elements<Bf16>(half_out),
                         .piece_sums = task.piece_sums},
                        stream());
  EXPECT_LE(largest_difference(half_out, expected), 0.02 * expected.abs().max().item<double>());
}

TEST_P(SageKernels, SumsAreNotDivided) {
  const at::Tensor rows = random_rows(kSrc, cols(), 5), grad = random_rows(kDst, 2 * cols(), 6);
  const at::Tensor sizes = lists.counts.to(at::kFloat).unsqueeze(1), in = rows.to(kGpu);
  const at::Tensor out = poisoned({kDst, 2 * cols()});
  mean_concat<float, float>({.rows = kDst,
                             .cols = cols(),
                             .in = in.const_data_ptr<float>(),
                             .in_pitch = cols(),
                             .edges = edges(),
                             .mean = false,
                             .out = out.mutable_data_ptr<float>()},
                            stream());
  EXPECT_LE(largest_difference(out.narrow(1, 0, cols()), reference_mean(lists, rows).mul(sizes)), 1e-4);
  EXPECT_EQ(largest_difference(out.narrow(1, cols(), cols()), rows.narrow(0, 0, kDst)), 0);

  const at::Tensor expected = at::zeros({kSrc, cols()});
  expected.narrow(0, 0, kDst).copy_(grad.narrow(1, cols(), cols()));
  for (Count v = 0; v < kDst; ++v) {
    const Count begin = lists.packed.indptr[v].item<Count>(), size = lists.counts[v].item<Count>();
    for (Count e = begin; e < begin + size; ++e)
      expected[lists.packed.indices[e].item<Count>()].add_(grad[v].narrow(0, 0, cols()));
  }
  const at::Tensor gpu_grad = grad.to(kGpu), grad_in = poisoned({kSrc, cols()});
  gated_mean_grad<float>({.rows = kSrc,
                          .cols = cols(),
                          .num_dst = kDst,
                          .transposed_indptr = on_gpu.transposed_indptr.const_data_ptr<Count>(),
                          .transposed_indices = on_gpu.transposed_indices.const_data_ptr<std::int32_t>(),
                          .edges = edges(),
                          .grad = gpu_grad.const_data_ptr<float>(),
                          .mean = false,
                          .out = grad_in.mutable_data_ptr<float>()},
                         stream());
  EXPECT_LE(largest_difference(grad_in, expected), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SageKernels,
                         testing::Combine(testing::Values(1, 7, 20, 50, 64, 100, 130, 136, 256, 264, 520),
                                          testing::Values(5, kStride), testing::Bool()));

TEST(SageParameters, AreJoinedAndTheirGradientsAdded) {
  if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  constexpr Count kOut = 37, kIn = 19, kPieces = 1234;
  const at::Tensor left = random_rows(kOut, kIn, 1).to(kGpu), right = random_rows(kOut, kIn, 2).to(kGpu);
  const at::Tensor joined = poisoned({kOut, 2 * kIn});
  SageLayers<JoinedWeightsOf<float>> weights;
  weights.count = 1;
  weights.layers[0] = {.out_cols = kOut,
                       .in_cols = kIn,
                       .neighbors = left.const_data_ptr<float>(),
                       .root = right.const_data_ptr<float>(),
                       .joined = joined.mutable_data_ptr<float>()};
  join_weights(weights, stream());
  EXPECT_TRUE(joined.narrow(1, 0, kIn).equal(left));
  EXPECT_TRUE(joined.narrow(1, kIn, kIn).equal(right));

  const at::Tensor pieces = random_rows(kPieces, kOut, 3), gpu_pieces = pieces.to(kGpu);
  const at::Tensor left_grad = left.clone(), right_grad = right.clone();
  const at::Tensor bias_grad = at::full({kOut}, 2.0f, left.options());
  SageLayers<ParameterGrads> grads;
  grads.count = 1;
  grads.layers[0] = {.out_cols = kOut,
                     .in_cols = kIn,
                     .joined = joined.const_data_ptr<float>(),
                     .num_pieces = kPieces,
                     .piece_sums = gpu_pieces.const_data_ptr<float>(),
                     .neighbors = left_grad.mutable_data_ptr<float>(),
                     .root = right_grad.mutable_data_ptr<float>(),
                     .bias = bias_grad.mutable_data_ptr<float>()};
  add_parameter_grads(grads, stream());
  EXPECT_TRUE(left_grad.equal(left.mul(2)));
  EXPECT_TRUE(right_grad.equal(right.mul(2)));
  EXPECT_LE(largest_difference(bias_grad, pieces.sum(0).add(2.0)), 1e-3);
}

}  // namespace
}  // namespace strata::nn
