// SPDX-License-Identifier: Apache-2.0
#include "step/optimizer.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "step/loss.hpp"
#include "strata/cuda/device.hpp"
#include "support/blocks.hpp"

namespace strata::train {
namespace {

using test::random_rows;

const c10::Device kGpu(c10::kCUDA, 0);

double difference(const at::Tensor& gpu, const at::Tensor& cpu) {
  const at::Tensor error = gpu.cpu().sub(cpu).abs();
  return error.isnan().any().item<bool>() ? HUGE_VAL : error.max().item<double>();
}

struct Updated {
  at::Tensor values;
  std::vector<at::Tensor> state;
  Optimizer::Counters counters;
};

/// Some updates, of which one has a guard that is no number.
Updated update(const OptimizerOptions& options, Count size, const c10::Device& device) {
  const at::Tensor values = random_rows(1, size, 1).squeeze(0).to(device),
                   guard = at::zeros({1}, values.options());
  Optimizer optimizer(options, values, guard);
  for (std::uint64_t s = 0; s < 7; ++s) {
    guard.fill_(s == 3 ? std::nan("") : 1.0);
    optimizer.step(values, random_rows(1, size, 10 + s).squeeze(0).to(device));
  }
  Updated result{values.cpu(), {}, optimizer.counters()};
  for (const auto& entry : optimizer.state()) result.state.push_back(entry.tensor.cpu());
  return result;
}

class GpuOptimizer : public testing::TestWithParam<OptimizerOptions> {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
};

TEST_P(GpuOptimizer, AgreesWithTheCpuAndRepeats) {
  for (const Count size : {1, 255, 100003, 3000001}) {
    const Updated cpu = update(GetParam(), size, c10::kCPU), gpu = update(GetParam(), size, kGpu),
                  again = update(GetParam(), size, kGpu);
    EXPECT_LE(difference(gpu.values, cpu.values), 1e-6) << size;
    EXPECT_TRUE(gpu.values.equal(again.values)) << size;
    EXPECT_EQ(gpu.counters.steps, cpu.counters.steps);
    EXPECT_EQ(gpu.counters.skipped, cpu.counters.skipped);
    ASSERT_EQ(gpu.state.size(), cpu.state.size());
    for (std::size_t i = 0; i < gpu.state.size(); ++i)
      EXPECT_LE(difference(gpu.state[i].to(at::kDouble), cpu.state[i].to(at::kDouble)), 1e-6) << size;
  }
}

// What ranks with and without a GPU in one run rely on.
TEST_P(GpuOptimizer, HasTheBitsOfTheCpuWhereUpdatesAreComputedOnTheHost) {
  OptimizerOptions options = GetParam();
  options.on_host = true;
  for (const Count size : {1, 100003}) {
    const Updated cpu = update(options, size, c10::kCPU), gpu = update(options, size, kGpu);
    EXPECT_TRUE(gpu.values.equal(cpu.values)) << size;
    EXPECT_EQ(gpu.counters.steps, cpu.counters.steps);
    EXPECT_EQ(gpu.counters.skipped, cpu.counters.skipped);
    ASSERT_EQ(gpu.state.size(), cpu.state.size());
    for (std::size_t i = 0; i < gpu.state.size(); ++i) EXPECT_TRUE(gpu.state[i].equal(cpu.state[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, GpuOptimizer,
    testing::Values(OptimizerOptions{},
                    OptimizerOptions{.kind = OptimizerKind::sgd, .learning_rate = 0.1, .clip_norm = 3},
                    OptimizerOptions{
                        .kind = OptimizerKind::adamw,
                        .weight_decay = 0.1,
                        .schedule = {.kind = ScheduleKind::cosine, .warmup_steps = 2, .total_steps = 9},
                        .clip_norm = 1,
                        .skip_not_finite = true},
                    OptimizerOptions{.weight_decay = 0.1,
                                     .schedule = {.kind = ScheduleKind::step, .step_size = 2, .gamma = 0.5},
                                     .skip_not_finite = true}));

TEST(GpuLoss, AgreesWithTheCpu) {
  if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  const at::Tensor labels = at::arange(500, at::kInt).mul(7).remainder(9).sub(2).clamp_min(-1).unsqueeze(1);
  // Every seventh without label; classes 32 to 44 and bit 45 are of the second word.
  const at::Tensor nodes = at::arange(500, at::kInt), known = nodes.remainder(7).ne(0).to(at::kInt);
  const at::Tensor sets =
      at::stack({nodes.mul(7919).mul(104729).mul(known),
                 nodes.mul(31).remainder(8192).mul(known).add(known.neg().add(1).mul(8192))},
                1);
  for (const LossOptions& options :
       {LossOptions{}, LossOptions{.label_smoothing = 0.1, .class_weights = {1, 2, 3, 1, 2, 3, 1}},
        LossOptions{.kind = LossKind::bce, .label_smoothing = 0.1, .class_weights = {1, 2, 3, 1, 2, 3, 1}},
        LossOptions{.kind = LossKind::bce, .label_smoothing = 0.1, .multi_label = true}}) {
    const Count classes = options.multi_label ? 45 : 7;
    const auto run = [&](const c10::Device& device) {
      const at::Tensor logits = random_rows(500, classes, 1).mul(5).to(device);
      const Loss::Result result = Loss(options, classes, device)(
          logits, (options.multi_label ? sets : labels).to(device), at::full({}, 300.0, logits.options()));
      return std::vector<at::Tensor>{result.outcome.cpu().div(500), result.gradient.cpu()};
    };
    const auto cpu = run(c10::kCPU), gpu = run(kGpu);
    for (std::size_t i = 0; i < cpu.size(); ++i)
      EXPECT_LE(difference(gpu[i], cpu[i]), 1e-5) << enum_name(options.kind) << i;
  }
}

}  // namespace
}  // namespace strata::train
