// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernels.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/edge_kernels.hpp"
#include "layers/ops.hpp"
#include "strata/cuda/device.hpp"
#include "strata/nn/candidate_scores.hpp"
#include "support/blocks.hpp"
#include "support/gpu_tensors.hpp"
#include "support/named_model.hpp"

namespace strata::nn {
namespace {

using test::kGpu;
using test::OwnedBlock;
using test::poisoned;
using test::random_block;
using test::random_rows;
using test::stream;

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
};

/// Over numbers of columns.
class OnGpu : public GpuTest, public testing::WithParamInterface<Count> {};

double largest_difference(const at::Tensor& gpu, const at::Tensor& cpu) {
  if (cpu.numel() == 0) return 0;
  const at::Tensor difference = gpu.cpu().sub(cpu).abs();
  return difference.isnan().any().item<bool>() ? HUGE_VAL : difference.max().item<double>();
}

struct SumInputs {
  OwnedBlock block;
  at::Tensor in, row_scale, col_scale, self, self_scale;

  SumInputs to(const c10::Device& device) const {
    const auto move = [&](const at::Tensor& t) { return t.to(device); };
    return {block.to(device), move(in), move(row_scale), move(col_scale), move(self), move(self_scale)};
  }
  at::Tensor run(const Kernels& kernels, bool scaled, bool with_self, CUstream_st* on) const {
    at::Tensor out = poisoned({block.num_dst, in.size(1)}, in.device());
    kernels.sparse_sum({.rows = block.num_dst,
                        .cols = in.size(1),
                        .indptr = block.indptr.const_data_ptr<Count>(),
                        .indices = block.indices.const_data_ptr<std::int32_t>(),
                        .in = in.const_data_ptr<float>(),
                        .row_scale = scaled ? row_scale.const_data_ptr<float>() : nullptr,
                        .col_scale = scaled ? col_scale.const_data_ptr<float>() : nullptr,
                        .self = with_self ? self.const_data_ptr<float>() : nullptr,
                        .self_scale = with_self && scaled ? self_scale.const_data_ptr<float>() : nullptr,
                        .num_self = with_self ? self.size(0) : 0,
                        .out = out.mutable_data_ptr<float>()},
                       on);
    return out;
  }
};

TEST_P(OnGpu, SparseSumAgreesWithTheCpu) {
  const Count cols = GetParam();
  for (const int max_degree : {0, 3, 25, 400}) {
    const OwnedBlock block =
        random_block({.num_dst = 137, .num_src = 500, .max_degree = max_degree, .seed = 3});
    const SumInputs host{block,
                         random_rows(500, cols, 1),
                         random_rows(1, 137, 2).squeeze(0),
                         random_rows(1, 500, 3).squeeze(0),
                         random_rows(100, cols, 4),
                         random_rows(1, 100, 5).squeeze(0)};
    const SumInputs device = host.to(kGpu);
    for (const bool scaled : {false, true}) {
      for (const bool with_self : {false, true}) {
        const at::Tensor expected = host.run(cpu_kernels(), scaled, with_self, nullptr);
        const at::Tensor actual = device.run(cuda_kernels(), scaled, with_self, stream());
        EXPECT_LE(largest_difference(actual, expected), 1e-6 * (max_degree + 10))
            << max_degree << scaled << with_self;
        EXPECT_TRUE(actual.equal(device.run(cuda_kernels(), scaled, with_self, stream())))
            << "other bits the second time";
      }
    }
  }
}

TEST_P(OnGpu, SumsWithoutLoopsAgreeWithTheCpu) {
  const Count cols = GetParam();
  // Of five nodes, so that one edge in five is a loop; the rows of some are not finite.
  const OwnedBlock host = random_block({.num_dst = 5, .num_src = 5, .max_degree = 60, .seed = 4});
  const at::Tensor in = random_rows(5, cols, 1);
  const auto run = [&](const Kernels& kernels, const OwnedBlock& block, const at::Tensor& rows,
                       CUstream_st* on) {
    at::Tensor out = poisoned({5, cols}, rows.device());
    kernels.sparse_sum(SparseSum{.rows = 5,
                                 .cols = cols,
                                 .indptr = block.indptr.const_data_ptr<Count>(),
                                 .indices = block.indices.const_data_ptr<std::int32_t>(),
                                 .in = rows.const_data_ptr<float>(),
                                 .skips_loops = true,
                                 .out = out.mutable_data_ptr<float>()},
                       on);
    return out;
  };
  const OwnedBlock device = host.to(kGpu);
  EXPECT_LE(largest_difference(run(cuda_kernels(), device, in.to(kGpu), stream()),
                               run(cpu_kernels(), host, in, nullptr)),
            1e-4);
  for (Count v = 0; v < 5; ++v) {
    at::Tensor infinite = in.clone();
    infinite.select(0, v).fill_(INFINITY);
    EXPECT_TRUE(run(cuda_kernels(), device, infinite.to(kGpu), stream())[v].isfinite().all().item<bool>())
        << "the loops of node " << v;
  }
}

TEST_P(OnGpu, RowsBesideSumsAndTheirGradientsAgreeWithTheCpu) {
  const Count cols = GetParam();
  const OwnedBlock block = random_block({.num_dst = 137, .num_src = 500, .max_degree = 25, .seed = 3});
  const at::Tensor in = random_rows(500, cols, 1), scale = random_rows(1, 137, 2).squeeze(0),
                   wide = random_rows(500, 2 * cols, 4);
  const auto joined = [&](const Kernels& kernels, const c10::Device& device, CUstream_st* on) {
    const OwnedBlock moved = block.to(device);
    const at::Tensor rows = in.to(device), scales = scale.to(device),
                     out = poisoned({137, 2 * cols}, rows.device());
    kernels.sparse_sum({.rows = 137,
                        .cols = cols,
                        .indptr = moved.indptr.const_data_ptr<Count>(),
                        .indices = moved.indices.const_data_ptr<std::int32_t>(),
                        .in = rows.const_data_ptr<float>(),
                        .row_scale = scales.const_data_ptr<float>(),
                        .self = rows.const_data_ptr<float>(),
                        .num_self = 137,
                        .beside = true,
                        .out = out.mutable_data_ptr<float>()},
                       on);
    return out;
  };
  const auto of_wide_rows = [&](const Kernels& kernels, const c10::Device& device, CUstream_st* on) {
    const OwnedBlock moved = block.to(device);
    const at::Tensor rows = wide.to(device), out = poisoned({137, cols}, rows.device());
    kernels.sparse_sum({.rows = 137,
                        .cols = cols,
                        .indptr = moved.indptr.const_data_ptr<Count>(),
                        .indices = moved.indices.const_data_ptr<std::int32_t>(),
                        .in = rows.const_data_ptr<float>(),
                        .in_pitch = 2 * cols,
                        .self = rows.const_data_ptr<float>() + cols,
                        .num_self = 100,
                        .out = out.mutable_data_ptr<float>()},
                       on);
    return out;
  };
  const at::Tensor beside = joined(cuda_kernels(), kGpu, stream());
  EXPECT_LE(largest_difference(beside, joined(cpu_kernels(), c10::kCPU, nullptr)), 4e-5);
  EXPECT_TRUE(beside.cpu().slice(1, cols).equal(in.slice(0, 0, 137)));
  EXPECT_LE(largest_difference(of_wide_rows(cuda_kernels(), kGpu, stream()),
                               of_wide_rows(cpu_kernels(), c10::kCPU, nullptr)),
            4e-5);
}

TEST_P(OnGpu, SumsOfColumnsAgreeWithTheCpu) {
  const Count cols = GetParam();
  for (const Count rows : {0, 1, 511, 513, 5000}) {
    const at::Tensor in = random_rows(rows, cols, 1), out = poisoned({cols}, c10::kCPU);
    column_sums_cpu(
        {.rows = rows, .cols = cols, .in = in.const_data_ptr<float>(), .out = out.mutable_data_ptr<float>()});
    const at::Tensor moved = in.to(kGpu), scratch = poisoned({ColumnSums::pieces(rows), cols}, kGpu),
                     found = poisoned({cols}, kGpu);
    column_sums_cuda({.rows = rows,
                      .cols = cols,
                      .in = moved.const_data_ptr<float>(),
                      .scratch = scratch.mutable_data_ptr<float>(),
                      .out = found.mutable_data_ptr<float>()},
                     stream());
    EXPECT_LE(largest_difference(found, out), 1e-3) << rows;
  }
}

TEST_P(OnGpu, ScoresOfCandidatesAgreeWithTheCpu) {
  const Count cols = GetParam(), edges = 41, candidates = 77;
  const at::Tensor ids = at::randint(300, {edges, candidates}, at::kLong),
                   left_out = ids.select(1, 5).clone(), queries = random_rows(edges, cols, 1);
  const auto scored = [&](const at::Tensor& rows, const c10::Device& device, const cuda::Stream& on) {
    const at::Tensor q = queries.to(device), r = rows.to(device), i = ids.to(device),
                     left = left_out.to(device), out = poisoned({edges, candidates}, device);
    score_candidates({.edges = edges,
                      .candidates = candidates,
                      .cols = cols,
                      .dtype = rows.scalar_type() == at::kFloat ? DType::f32 : DType::bf16,
                      .queries = q.const_data_ptr<float>(),
                      .rows = r.const_data_ptr(),
                      .ids = i.const_data_ptr<std::int64_t>(),
                      .left_out = left.const_data_ptr<std::int64_t>(),
                      .out = out.mutable_data_ptr<float>()},
                     on);
    return out;
  };
  const auto counted = [&](const at::Tensor& scores, const at::Tensor& own, const cuda::Stream& on) {
    const at::Tensor counts = at::full({2, edges}, 3, own.options().dtype(at::kLong));
    count_scores({.edges = edges,
                  .candidates = candidates - 9,
                  .row_length = candidates,
                  .scores = scores.const_data_ptr<float>(),
                  .own = own.const_data_ptr<float>(),
                  .above = counts.mutable_data_ptr<std::int64_t>(),
                  .equal = counts.mutable_data_ptr<std::int64_t>() + edges},
                 on);
    return counts;
  };
  const cuda::Stream on_gpu = cuda::Stream::borrow({.kind = Device::Kind::cuda}, stream());
  for (const at::Tensor& rows : {random_rows(300, cols, 2), random_rows(300, cols, 2).to(at::kBFloat16)}) {
    const at::Tensor cpu = scored(rows, c10::kCPU, {}), gpu = scored(rows, kGpu, on_gpu);
    EXPECT_TRUE(gpu.isnan().cpu().equal(ids.eq(left_out.unsqueeze(1))));
    EXPECT_LE(largest_difference(gpu.nan_to_num(0), cpu.nan_to_num(0)), 1e-4);
    const at::Tensor own = gpu.nan_to_num(0).select(1, 3).contiguous();
    EXPECT_TRUE(counted(gpu, own, on_gpu).cpu().equal(counted(gpu.cpu(), own.cpu(), {})));
  }
}

/// Sums differ in the last bits of f32, so results may round to neighboring numbers.
TEST_P(OnGpu, SumsOfBf16AreThoseOfTheCpuToOneRounding) {
  const Count cols = GetParam();
  const OwnedBlock block = random_block({.num_dst = 137, .num_src = 500, .max_degree = 25, .seed = 3});
  const OwnedBlock moved = block.to(kGpu);
  const at::Tensor x = random_rows(500, cols, 1);
  for (const at::Tensor& rows : {x, x.to(at::kBFloat16)}) {
    const at::Tensor cpu = aggregate_to(at::kBFloat16, rows, block.view(), gcn_scales(block.view()));
    const at::Tensor gpu = aggregate_to(at::kBFloat16, rows.to(kGpu), moved.view(), gcn_scales(moved.view()));
    const at::Tensor error = gpu.cpu().to(at::kFloat).sub(cpu.to(at::kFloat)).abs();
    EXPECT_TRUE(error.le(cpu.to(at::kFloat).abs().mul(0.0079).add(1e-6)).all().item<bool>());
  }
}

TEST_P(OnGpu, ActivationOfBf16HasTheBitsOfTheCpu) {
  const Count cols = GetParam(), rows = 211;
  const OwnedBlock block = random_block({.num_dst = 0, .num_src = rows, .max_degree = 0, .seed = 1});
  const OwnedBlock moved = block.to(kGpu);
  const Pass pass{.key = {.seed = 9, .epoch = 2, .step = 40}, .training = true};
  const at::Tensor start = random_rows(rows, cols, 1).to(at::kBFloat16),
                   bias = random_rows(1, cols, 2).squeeze(0),
                   weights = random_rows(rows, cols, 3).to(at::kBFloat16);
  const auto run = [&](const OwnedBlock& on, const c10::Device& device) {
    at::Tensor z = start.to(device).clone().requires_grad_(true);
    const at::Tensor out =
        bias_relu_dropout(z.mul(1), bias.to(device), make_dropout(0.3, pass, 1, on.view()));
    out.backward(weights.to(device));
    return std::pair(out.detach().cpu(), z.grad().cpu());
  };
  const auto cpu = run(block, c10::kCPU), gpu = run(moved, kGpu);
  EXPECT_TRUE(gpu.first.equal(cpu.first));
  EXPECT_TRUE(gpu.second.equal(cpu.second));
}

TEST_P(OnGpu, ActivationHasTheBitsOfTheCpu) {
  const Count cols = GetParam(), rows = 211;
  const OwnedBlock block = random_block({.num_dst = 0, .num_src = rows, .max_degree = 0, .seed = 1});
  const OwnedBlock moved = block.to(kGpu);
  const Pass pass{.key = {.seed = 9, .epoch = 2, .step = 40}, .training = true};
  for (const double probability : {0.0, 0.3, 0.5}) {
    for (const bool relu : {false, true}) {
      at::Tensor cpu = random_rows(rows, cols, 1), bias = random_rows(1, cols, 2), gpu = cpu.to(kGpu),
                 gpu_bias = bias.to(kGpu);
      cpu_kernels().activate({.rows = rows,
                              .cols = cols,
                              .bias = bias.const_data_ptr<float>(),
                              .relu = relu,
                              .dropout = make_dropout(probability, pass, 1, block.view()),
                              .values = cpu.mutable_data_ptr<float>()},
                             nullptr);
      cuda_kernels().activate({.rows = rows,
                               .cols = cols,
                               .bias = gpu_bias.const_data_ptr<float>(),
                               .relu = relu,
                               .dropout = make_dropout(probability, pass, 1, moved.view()),
                               .values = gpu.mutable_data_ptr<float>()},
                              stream());
      EXPECT_TRUE(gpu.cpu().equal(cpu)) << probability << relu;
    }
  }
}

TEST_P(OnGpu, ActivationGradHasTheBitsOfTheCpu) {
  const Count cols = GetParam(), rows = 333;
  const at::Tensor output = random_rows(rows, cols, 1).relu(), grad = random_rows(rows, cols, 2);
  const at::Tensor gpu_output = output.to(kGpu), gpu_grad = grad.to(kGpu);
  at::Tensor expected = poisoned({rows, cols}, c10::kCPU), actual = poisoned({rows, cols}, kGpu);
  const auto arguments = [&](const at::Tensor& y, const at::Tensor& g, const at::Tensor& out) {
    return ActivationGrad{.rows = rows,
                          .cols = cols,
                          .output = y.const_data_ptr<float>(),
                          .grad_out = g.const_data_ptr<float>(),
                          .scale = 1.7f,
                          .grad_in = out.mutable_data_ptr<float>()};
  };
  cpu_kernels().activation_grad(arguments(output, grad, expected), nullptr);
  cuda_kernels().activation_grad(arguments(gpu_output, gpu_grad, actual), stream());
  EXPECT_TRUE(actual.cpu().equal(expected));
}

TEST_P(OnGpu, DropoutHasTheBitsOfTheCpu) {
  const OwnedBlock block = random_block({.num_dst = 0, .num_src = 97, .max_degree = 0, .seed = 1}),
                   moved = block.to(kGpu);
  const Pass pass{.key = {.seed = 4, .epoch = 0, .step = 7}, .training = true};
  const at::Tensor x = random_rows(97, GetParam(), 1);
  const at::Tensor expected = dropout(x, make_dropout(0.4, pass, 3, block.view()));
  EXPECT_TRUE(dropout(x.to(kGpu), make_dropout(0.4, pass, 3, moved.view())).cpu().equal(expected));
}

INSTANTIATE_TEST_SUITE_P(Columns, OnGpu,
                         testing::Values(1, 2, 3, 5, 16, 20, 33, 62, 64, 100, 128, 130, 256, 511, 1433));

TEST_F(GpuTest, ScalesAgreeWithTheCpu) {
  const OwnedBlock block = random_block({.num_dst = 1000, .num_src = 3000, .max_degree = 9, .seed = 3}),
                   moved = block.to(kGpu);
  const BlockScales cpu_mean = mean_scales(block.view()), gpu_mean = mean_scales(moved.view());
  EXPECT_TRUE(gpu_mean.row.cpu().equal(cpu_mean.row));
  const BlockScales cpu = gcn_scales(block.view()), gpu = gcn_scales(moved.view());
  EXPECT_LE(largest_difference(gpu.row, cpu.row), 1e-5);
  EXPECT_LE(largest_difference(gpu.col, cpu.col), 1e-6);
  EXPECT_LE(largest_difference(gpu.self, cpu.self), 1e-6);
}

TEST_F(GpuTest, ScalesAgreeWithTheCpuWhereNodesHaveLoops) {
  // Of ten nodes, so that about one edge in ten is a loop.
  const OwnedBlock block = random_block({.num_dst = 10, .num_src = 10, .max_degree = 40, .seed = 4}),
                   moved = block.to(kGpu);
  ASSERT_TRUE(block.edge_dst().eq(block.indices).any().item<bool>());
  const BlockScales cpu = gcn_scales(block.view()), gpu = gcn_scales(moved.view());
  EXPECT_LE(largest_difference(gpu.row, cpu.row), 1e-5);
  EXPECT_LE(largest_difference(gpu.self, cpu.self), 1e-5);
  const at::Tensor rows = random_rows(10, 33, 5);
  EXPECT_LE(
      largest_difference(aggregate(rows.to(kGpu), moved.view(), gpu), aggregate(rows, block.view(), cpu)),
      1e-4);
}

struct Trained {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
};

Trained train_once(const std::string& kind, const OwnedBlock& outer, const OwnedBlock& inner,
                   const at::Tensor& x, bool bf16 = false) {
  ModelOptions options = test::named_model(kind);
  options.in_cols = x.size(1);
  options.hidden = 64;
  options.out_cols = 7;
  options.attention_dropout = 0.2;
  options.seed = 5;
  options.bf16 = bf16;
  const auto model = make_model(options);
  model->to(x.device());
  const sampling::MiniBatch batch{.blocks = {outer.view(), inner.view()}, .num_seeds = inner.num_dst};
  const at::Tensor output =
      model->forward(x, batch, {.key = {.seed = 1, .epoch = 0, .step = 3}, .training = true});
  output.square().sum().backward();
  Trained trained{output.detach(), {}};
  for (const at::Tensor& p : model->parameters()) trained.gradients.push_back(p.grad());
  return trained;
}

TEST_F(GpuTest, WholeModelsAgreeWithTheCpuAndRepeat) {
  const OwnedBlock outer = random_block({.num_dst = 400, .num_src = 1500, .max_degree = 12, .seed = 1});
  const OwnedBlock inner = random_block({.num_dst = 100, .num_src = 400, .max_degree = 12, .seed = 2});
  const at::Tensor x = random_rows(1500, 50, 1);
  for (const char* kind : {"sage", "sage max", "gcn", "gin", "gat"}) {
    const Trained cpu = train_once(kind, outer, inner, x);
    const Trained gpu = train_once(kind, outer.to(kGpu), inner.to(kGpu), x.to(kGpu));
    const Trained again = train_once(kind, outer.to(kGpu), inner.to(kGpu), x.to(kGpu));
    EXPECT_LE(largest_difference(gpu.output, cpu.output), 1e-4) << kind;
    EXPECT_TRUE(gpu.output.equal(again.output));
    ASSERT_EQ(gpu.gradients.size(), cpu.gradients.size());
    for (std::size_t i = 0; i < gpu.gradients.size(); ++i) {
      const double size = cpu.gradients[i].abs().max().item<double>();
      EXPECT_LE(largest_difference(gpu.gradients[i], cpu.gradients[i]), 1e-4 * (1 + size))
          << kind << " parameter " << i;
      EXPECT_TRUE(gpu.gradients[i].equal(again.gradients[i])) << kind << " parameter " << i;
    }
  }
}

TEST_F(GpuTest, TrainsInBf16NearF32AndRepeats) {
  const OwnedBlock outer =
      random_block({.num_dst = 400, .num_src = 1500, .max_degree = 12, .seed = 1}).to(kGpu);
  const OwnedBlock inner =
      random_block({.num_dst = 100, .num_src = 400, .max_degree = 12, .seed = 2}).to(kGpu);
  const at::Tensor x = random_rows(1500, 50, 1).to(kGpu);
  for (const char* kind : {"sage", "sage max", "gcn", "gin", "gat"}) {
    const Trained f32 = train_once(kind, outer, inner, x), bf16 = train_once(kind, outer, inner, x, true),
                  again = train_once(kind, outer, inner, x, true);
    EXPECT_FALSE(bf16.output.equal(f32.output)) << kind << ": nothing was rounded";
    EXPECT_LE(bf16.output.sub(f32.output).norm().item<double>(), 0.03 * f32.output.norm().item<double>())
        << kind;
    EXPECT_TRUE(bf16.output.equal(again.output)) << kind;
    for (std::size_t i = 0; i < f32.gradients.size(); ++i) {
      EXPECT_LE(bf16.gradients[i].sub(f32.gradients[i]).norm().item<double>(),
                0.15 * f32.gradients[i].norm().item<double>() + 1e-3 * f32.output.norm().item<double>())
          << kind << " parameter " << i;
      EXPECT_TRUE(bf16.gradients[i].equal(again.gradients[i])) << kind << " parameter " << i;
    }
  }
}

TEST_F(GpuTest, EmptyBlocksWork) {
  const OwnedBlock none = random_block({.num_dst = 0, .num_src = 0, .seed = 1}).to(kGpu);
  for (const char* kind : {"sage", "sage max", "gcn", "gin", "gat"}) {
    const Trained trained = train_once(kind, none, none, random_rows(0, 6, 1).to(kGpu));
    EXPECT_EQ(trained.output.size(0), 0);
    for (const at::Tensor& gradient : trained.gradients) EXPECT_TRUE(gradient.eq(0).all().item<bool>());
  }
}

}  // namespace
}  // namespace strata::nn
