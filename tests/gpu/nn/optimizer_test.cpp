// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/optimizer.hpp"

#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "strata/cuda/device.hpp"
#include "support/blocks.hpp"

namespace strata::nn {
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

}  // namespace
}  // namespace strata::nn
