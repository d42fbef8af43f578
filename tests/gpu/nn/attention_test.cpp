// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/edge_kernels.hpp"
#include "layers/ops.hpp"
#include "strata/cuda/device.hpp"
#include "strata/nn/model.hpp"
#include "support/blocks.hpp"
#include "support/gpu_tensors.hpp"

namespace strata::nn {
namespace {

using test::kGpu;
using test::OwnedBlock;
using test::poisoned;
using test::random_block;
using test::random_rows;
using test::stream;

double difference(const at::Tensor& gpu, const at::Tensor& cpu) {
  if (cpu.numel() == 0) return 0;
  const at::Tensor error = gpu.cpu().sub(cpu).abs();
  const double size = std::max(1.0, cpu.abs().max().item<double>());
  return error.isnan().any().item<bool>() ? HUGE_VAL : error.max().item<double>() / size;
}

struct Shape {
  Count heads, head_cols;
  int max_degree;
};

/// A block whose last nodes are isolated, as padding makes them.
OwnedBlock padded_block(const Shape& shape) {
  return random_block({.num_dst = 150, .num_src = 500, .max_degree = shape.max_degree, .seed = 3});
}

/// Dropout by the relations of sources, which take turns.
struct Relations {
  at::Tensor of_src;
  Relations(Count num_src, const c10::Device& device)
      : of_src(at::arange(num_src, at::kInt).remainder(3).to(device)) {}

  EdgeDropout dropout(double probability, const sampling::Block& block) const {
    const Pass pass{.key = {.seed = 4, .epoch = 1, .step = 9}, .training = true};
    return {.rule = make_dropout(probability, pass, 1, block),
            .dst_ids = block.src_original_ids + 1,
            .relations = of_src.const_data_ptr<std::int32_t>()};
  }
};

struct Outputs {
  at::Tensor src_scores, out, log_sums, means, grad_dst_scores, grad_src_scores, grad_rows;
};

Outputs attend(const AttentionKernels& kernels, const OwnedBlock& block, const Shape& shape, double dropout,
               const c10::Device& device, CUstream_st* on, at::ScalarType type = at::kFloat,
               at::ScalarType rounded_to = at::kFloat, bool self_loops = true) {
  const Count heads = shape.heads, cols = shape.heads * shape.head_cols;
  const sampling::Block view = block.view();
  const at::Tensor rows = random_rows(block.num_src, cols, 1).to(rounded_to).to(at::kFloat).to(device),
                   weights = random_rows(2 * heads, shape.head_cols, 2).to(device),
                   grad_out = random_rows(block.num_dst, cols, 3).to(rounded_to).to(device, type),
                   dst_scores = random_rows(block.num_dst, heads, 4).to(device);
  Outputs o;
  o.src_scores = poisoned({block.num_src, heads}, rows.options());
  kernels.head_dots({.num_rows = block.num_src,
                     .heads = heads,
                     .head_cols = shape.head_cols,
                     .rows = rows.const_data_ptr<float>(),
                     .weights = weights.const_data_ptr<float>(),
                     .scores = o.src_scores.mutable_data_ptr<float>()},
                    on);
  const at::Tensor typed = rows.to(type);
  const Relations relations(block.num_src, device);
  const EdgeAttention over{.edges = {block.num_dst, view.indptr, view.indices},
                           .out_edges = {block.num_src, view.transposed_indptr, view.transposed_indices},
                           .num_src = block.num_src,
                           .heads = heads,
                           .head_cols = shape.head_cols,
                           .dtype = type == at::kFloat ? DType::f32 : DType::bf16,
                           .rows = typed.const_data_ptr(),
                           .src_scores = o.src_scores.const_data_ptr<float>(),
                           .dst_scores = dst_scores.const_data_ptr<float>(),
                           .dropout = relations.dropout(dropout, view),
                           .self_loops = self_loops};
  o.out = poisoned({block.num_dst, cols}, typed.options());
  o.log_sums = poisoned({block.num_dst, heads}, rows.options());
  kernels.forward(
      {.over = over, .log_sums = o.log_sums.mutable_data_ptr<float>(), .out = o.out.mutable_data_ptr()}, on);
  o.means = poisoned({block.num_dst, heads}, rows.options());
  o.grad_dst_scores = poisoned({block.num_dst, heads}, rows.options());
  o.grad_src_scores = poisoned({block.num_src, heads}, rows.options());
  o.grad_rows = poisoned({block.num_src, cols}, typed.options());
  kernels.backward({.over = over,
                    .log_sums = o.log_sums.const_data_ptr<float>(),
                    .src_weights = weights.const_data_ptr<float>(),
                    .dst_weights = weights.const_data_ptr<float>() + heads * shape.head_cols,
                    .grad_out = grad_out.const_data_ptr(),
                    .means = o.means.mutable_data_ptr<float>(),
                    .grad_src_scores = o.grad_src_scores.mutable_data_ptr<float>(),
                    .grad_dst_scores = o.grad_dst_scores.mutable_data_ptr<float>(),
                    .grad_rows = o.grad_rows.mutable_data_ptr()},
                   on);
  return o;
}

class GpuAttention : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
};

TEST_P(GpuAttention, AgreesWithTheCpuAndRepeats) {
  const OwnedBlock block = padded_block(GetParam()), moved = block.to(kGpu);
  for (const double dropout : {0.0, 0.4}) {
    const Outputs cpu = attend(cpu_attention_kernels(), block, GetParam(), dropout, c10::kCPU, nullptr);
    const Outputs gpu = attend(cuda_attention_kernels(), moved, GetParam(), dropout, kGpu, stream());
    const Outputs again = attend(cuda_attention_kernels(), moved, GetParam(), dropout, kGpu, stream());
    for (at::Tensor Outputs::*member :
         {&Outputs::src_scores, &Outputs::out, &Outputs::log_sums, &Outputs::means, &Outputs::grad_dst_scores,
          &Outputs::grad_src_scores, &Outputs::grad_rows}) {
      EXPECT_LE(difference(gpu.*member, cpu.*member), 2e-5) << "dropout " << dropout;
      EXPECT_TRUE((gpu.*member).equal(again.*member)) << "other bits the second time";
    }
  }
}

TEST_P(GpuAttention, AgreesWithTheCpuInBfloat16) {
  const OwnedBlock block = padded_block(GetParam()), moved = block.to(kGpu);
  for (const double dropout : {0.0, 0.4}) {
    const Outputs cpu = attend(cpu_attention_kernels(), block, GetParam(), dropout, c10::kCPU, nullptr,
                               at::kFloat, at::kBFloat16);
    const Outputs gpu = attend(cuda_attention_kernels(), moved, GetParam(), dropout, kGpu, stream(),
                               at::kBFloat16, at::kBFloat16);
    for (at::Tensor Outputs::*member :
         {&Outputs::log_sums, &Outputs::means, &Outputs::grad_dst_scores, &Outputs::grad_src_scores})
      EXPECT_LE(difference(gpu.*member, cpu.*member), 2e-5) << "dropout " << dropout;
    for (at::Tensor Outputs::*member : {&Outputs::out, &Outputs::grad_rows})
      EXPECT_LE(difference((gpu.*member).to(at::kFloat), cpu.*member), 1.0 / 256) << "dropout " << dropout;
  }
}

TEST_P(GpuAttention, AgreesWithTheCpuWhereNodesHaveLoops) {
  // Of ten nodes, so that about one edge in ten is a loop.
  const OwnedBlock block = random_block({.num_dst = 10, .num_src = 10, .max_degree = 40, .seed = 4}),
                   moved = block.to(kGpu);
  ASSERT_TRUE(block.edge_dst().eq(block.indices).any().item<bool>());
  const Outputs cpu = attend(cpu_attention_kernels(), block, GetParam(), 0.0, c10::kCPU, nullptr);
  const Outputs gpu = attend(cuda_attention_kernels(), moved, GetParam(), 0.0, kGpu, stream());
  for (at::Tensor Outputs::*member :
       {&Outputs::out, &Outputs::log_sums, &Outputs::means, &Outputs::grad_dst_scores,
        &Outputs::grad_src_scores, &Outputs::grad_rows})
    EXPECT_LE(difference(gpu.*member, cpu.*member), 2e-5);
}

struct DotOutputs {
  at::Tensor out, log_sums, means, grad_queries, grad_rows;
};

DotOutputs attend_by_dots(const AttentionKernels& kernels, const OwnedBlock& block, const Shape& shape,
                          double dropout, const c10::Device& device, CUstream_st* on, at::ScalarType type,
                          at::ScalarType rounded_to) {
  const Count cols = shape.heads * shape.head_cols;
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_cols));
  const auto rows_of = [&](Count rows, Count row_cols, std::uint64_t seed) {
    return random_rows(rows, row_cols, seed).to(rounded_to).to(device, type);
  };
  const at::Tensor queries = random_rows(block.num_dst, cols, 1).mul(scale).to(rounded_to).to(device, type),
                   rows = rows_of(block.num_src, 2 * cols, 2), grad_out = rows_of(block.num_dst, cols, 3);
  const sampling::Block view = block.view();
  const Relations relations(block.num_src, device);
  const DotAttention over{.edges = {block.num_dst, view.indptr, view.indices},
                          .out_edges = {block.num_src, view.transposed_indptr, view.transposed_indices},
                          .num_src = block.num_src,
                          .heads = shape.heads,
                          .head_cols = shape.head_cols,
                          .dtype = type == at::kFloat ? DType::f32 : DType::bf16,
                          .queries = queries.const_data_ptr(),
                          .rows = rows.const_data_ptr(),
                          .dropout = relations.dropout(dropout, view)};
  const auto of_heads = rows.options().dtype(at::kFloat);
  DotOutputs o{.out = poisoned({block.num_dst, cols}, rows.options()),
               .log_sums = poisoned({block.num_dst, shape.heads}, of_heads),
               .means = poisoned({block.num_dst, shape.heads}, of_heads),
               .grad_queries = poisoned({block.num_dst, cols}, rows.options()),
               .grad_rows = poisoned({block.num_src, 2 * cols}, rows.options())};
  kernels.forward(
      {.over = over, .log_sums = o.log_sums.mutable_data_ptr<float>(), .out = o.out.mutable_data_ptr()}, on);
  kernels.backward({.over = over,
                    .log_sums = o.log_sums.const_data_ptr<float>(),
                    .grad_out = grad_out.const_data_ptr(),
                    .means = o.means.mutable_data_ptr<float>(),
                    .grad_queries = o.grad_queries.mutable_data_ptr(),
                    .grad_rows = o.grad_rows.mutable_data_ptr()},
                   on);
  o.log_sums.clamp_(-1e3);  // of nodes without edges it is minus infinity
  return o;
}

void expect_dots_of_the_cpu(const Shape& shape, const OwnedBlock& block) {
  const OwnedBlock moved = block.to(kGpu);
  for (const double dropout : {0.0, 0.4})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const auto run = [&](const AttentionKernels& kernels, const OwnedBlock& on, const c10::Device& device,
                           at::ScalarType with) {
        return attend_by_dots(kernels, on, shape, dropout, device, device.is_cuda() ? stream() : nullptr,
                              with, type);
      };
      const DotOutputs cpu = run(cpu_attention_kernels(), block, c10::kCPU, at::kFloat),
                       gpu = run(cuda_attention_kernels(), moved, kGpu, type),
                       again = run(cuda_attention_kernels(), moved, kGpu, type);
      const double rounding = type == at::kFloat ? 2e-5 : 1.0 / 256;
      for (at::Tensor DotOutputs::*member : {&DotOutputs::out, &DotOutputs::log_sums, &DotOutputs::means,
                                             &DotOutputs::grad_queries, &DotOutputs::grad_rows}) {
        EXPECT_LE(difference((gpu.*member).to(at::kFloat), cpu.*member), rounding) << type << dropout;
        EXPECT_TRUE((gpu.*member).equal(again.*member)) << "other bits the second time";
      }
    }
}

/// Most lists are short, and those of two sources so long that whole blocks sum them.
OwnedBlock block_of_hubs() {
  std::vector<std::vector<std::int32_t>> neighbors(400);
  for (std::int32_t v = 0; v < 400; ++v) neighbors[at(Count{v})] = {3, v, 77, v % 7 + 90};
  return test::block_of(neighbors, 500);
}

TEST_P(GpuAttention, AgreesWithTheCpuWhereNodesAreNeighborsOfMany) {
  const OwnedBlock block = block_of_hubs(), moved = block.to(kGpu);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto run = [&](const AttentionKernels& kernels, const OwnedBlock& on, const c10::Device& device,
                         at::ScalarType with) {
      return attend(kernels, on, GetParam(), 0.3, device, device.is_cuda() ? stream() : nullptr, with, type,
                    false);
    };
    const Outputs cpu = run(cpu_attention_kernels(), block, c10::kCPU, at::kFloat),
                  gpu = run(cuda_attention_kernels(), moved, kGpu, type),
                  again = run(cuda_attention_kernels(), moved, kGpu, type);
    const double rounding = type == at::kFloat ? 2e-5 : 1.0 / 256;
    for (at::Tensor Outputs::*member : {&Outputs::out, &Outputs::means, &Outputs::grad_dst_scores,
                                        &Outputs::grad_src_scores, &Outputs::grad_rows}) {
      EXPECT_LE(difference((gpu.*member).to(at::kFloat), cpu.*member), rounding) << type;
      EXPECT_TRUE((gpu.*member).equal(again.*member)) << "other bits the second time";
    }
  }
}

TEST_P(GpuAttention, ByDotsAgreesWithTheCpuAndRepeats) {
  for (const OwnedBlock& block : {padded_block(GetParam()), block_of_hubs()})
    expect_dots_of_the_cpu(GetParam(), block);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuAttention,
                         testing::Values(Shape{1, 1, 5}, Shape{4, 64, 15}, Shape{1, 128, 15}, Shape{3, 7, 9},
                                         Shape{8, 8, 300}, Shape{2, 33, 12}, Shape{1, 256, 12},
                                         Shape{2, 300, 6}, Shape{9, 2, 8}, Shape{4, 47, 0},
                                         Shape{1, 131, 20}));

class GpuMax : public testing::TestWithParam<Count> {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
};

struct MaxOutputs {
  at::Tensor out, winners, grad_in;
};

MaxOutputs largest(const OwnedBlock& block, Count cols, const c10::Device& device) {
  const at::Tensor in = random_rows(block.num_src, cols, 1).relu().to(device),
                   grad_out = random_rows(block.num_dst, cols, 2).to(device);
  MaxOutputs o{poisoned({block.num_dst, cols}, in.options()),
               at::full({block.num_dst, cols}, -7, in.options().dtype(at::kInt)),
               poisoned({block.num_src, cols}, in.options())};
  const sampling::Block view = block.view();
  const EdgeMax max{.edges = {block.num_dst, view.indptr, view.indices},
                    .cols = cols,
                    .in = in.const_data_ptr<float>(),
                    .out = o.out.mutable_data_ptr<float>(),
                    .winners = o.winners.mutable_data_ptr<std::int32_t>()};
  const EdgeMaxGrad grad{.out_edges = {block.num_src, view.transposed_indptr, view.transposed_indices},
                         .cols = cols,
                         .winners = o.winners.const_data_ptr<std::int32_t>(),
                         .grad_out = grad_out.const_data_ptr<float>(),
                         .grad_in = o.grad_in.mutable_data_ptr<float>()};
  if (device.is_cuda()) {
    neighbor_max_cuda(max, stream());
    neighbor_max_grad_cuda(grad, stream());
  } else {
    neighbor_max_cpu(max);
    neighbor_max_grad_cpu(grad);
  }
  return {o.out.cpu(), o.winners.cpu(), o.grad_in.cpu()};
}

TEST_P(GpuMax, HasTheWinnersOfTheCpu) {
  for (const int max_degree : {0, 4, 60}) {
    const OwnedBlock block =
        random_block({.num_dst = 130, .num_src = 400, .max_degree = max_degree, .seed = 5});
    const MaxOutputs cpu = largest(block, GetParam(), c10::kCPU),
                     gpu = largest(block.to(kGpu), GetParam(), kGpu);
    EXPECT_TRUE(gpu.out.equal(cpu.out)) << max_degree;
    EXPECT_TRUE(gpu.winners.equal(cpu.winners)) << max_degree;
    EXPECT_TRUE(gpu.grad_in.equal(cpu.grad_in)) << max_degree;
  }
}

INSTANTIATE_TEST_SUITE_P(Columns, GpuMax, testing::Values(1, 2, 3, 16, 33, 100, 128, 130, 256, 511));

}  // namespace
}  // namespace strata::nn
