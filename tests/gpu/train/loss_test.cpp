// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/blocks.hpp"
#include "task/class_loss.hpp"

namespace strata::train {
namespace {

using test::random_rows;

double difference(const at::Tensor& gpu, const at::Tensor& cpu) {
  const at::Tensor error = gpu.sub(cpu).abs();
  return error.isnan().any().item<bool>() ? HUGE_VAL : error.max().item<double>();
}

TEST(GpuLoss, AgreesWithTheCpu) {
  if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  const at::Tensor labels = at::arange(500, at::kInt).mul(7).remainder(9).sub(2).clamp_min(-1).unsqueeze(1);
  // Every seventh without label; classes 32 to 44 and bit 45 are of the second word.
  const at::Tensor nodes = at::arange(500, at::kInt), known = nodes.remainder(7).ne(0).to(at::kInt);
  const at::Tensor sets =
      at::stack({nodes.mul(7919).mul(104729).mul(known),
                 nodes.mul(31).remainder(8192).mul(known).add(known.neg().add(1).mul(8192))},
                1);
  for (const ClassLossOptions& options :
       {ClassLossOptions{}, ClassLossOptions{.label_smoothing = 0.1, .class_weights = {1, 2, 3, 1, 2, 3, 1}},
        ClassLossOptions{
            .kind = LossKind::bce, .label_smoothing = 0.1, .class_weights = {1, 2, 3, 1, 2, 3, 1}},
        ClassLossOptions{.kind = LossKind::bce, .label_smoothing = 0.1, .multi_label = true},
        ClassLossOptions{.kind = LossKind::focal, .class_weights = {1, 2, 3, 1, 2, 3, 1}}}) {
    const Count classes = options.multi_label ? 45 : 7;
    const auto run = [&](const c10::Device& device) {
      const at::Tensor logits = random_rows(500, classes, 1).mul(5).to(device);
      const Loss::Result result = ClassLoss(options, classes, device)(
          logits, (options.multi_label ? sets : labels).to(device), at::full({}, 300.0, logits.options()));
      return std::vector<at::Tensor>{result.outcome.cpu().div(500), result.gradient.cpu()};
    };
    const auto cpu = run(c10::kCPU), gpu = run(c10::Device(c10::kCUDA, 0));
    for (std::size_t i = 0; i < cpu.size(); ++i)
      EXPECT_LE(difference(gpu[i], cpu[i]), 1e-5) << enum_name(options.kind.kind) << i;
  }
}

}  // namespace
}  // namespace strata::train
