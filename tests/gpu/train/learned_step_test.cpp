// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "step/learned_rows.hpp"
#include "step/step_graph.hpp"
#include "strata/cuda/device.hpp"
#include "strata/nn/model.hpp"
#include "strata/sampling/sampler.hpp"
#include "support/blocks.hpp"
#include "support/reference_sampler.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

constexpr Device kRowsGpu{.kind = Device::Kind::cuda, .index = 0};
constexpr Count kRowsSeeds = 60, kLearnedNodes = 2000, kLearnedWidth = 12;

class LearnedStep : public testing::TestWithParam<nn::ModelKind> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  static std::shared_ptr<nn::BlockModel> make() {
    return nn::make_model({.kind = GetParam(),
                           .in_cols = kLearnedWidth,
                           .hidden = 16,
                           .out_cols = 5,
                           .num_layers = 2,
                           .heads = {2},
                           .dropout = 0.0,
                           .seed = 3});
  }
  /// All nodes but the first hundred.
  static LearnedRows rows_on(Device device, RowOptimizer optimizer) {
    return LearnedRows({.types = {{"node", {100, kLearnedNodes - 100}}},
                        .cols = kLearnedWidth,
                        .optimizer = optimizer,
                        .learning_rate = 0.05,
                        .seed = 6,
                        .device = device,
                        .table_device = device});
  }
};

// Rows that recorded steps of padded batches update are those that the CPU updates with batches of their own sizes.
TEST_P(LearnedStep, UpdatesTheRowsThatTheCpuUpdates) {
  const test::PlainGraph graph =
      test::renumbered(test::random_graph({.num_nodes = kLearnedNodes, .seed = 4}), 5);
  const test::ViewOwner on_gpu(graph, {.device = kRowsGpu}), on_cpu(graph, {});
  ThreadPool pool(1);
  const auto model = make(), reference = make();
  model->to(at::Device(at::kCUDA, 0));
  const sampling::SamplerOptions options{.fanouts = {5, 4},
                                         .max_seeds = kRowsSeeds,
                                         .in_degrees = model->traits().needs_in_degrees,
                                         .transpose = true,
                                         .input_transpose = true};
  const auto cpu_sampler = sampling::make_sampler(on_cpu.view(), options, {}, 1, pool);
  const auto gpu_sampler = sampling::make_sampler(on_gpu.view(), options, {}, 1, pool);
  const sampling::PaddedShape shape = gpu_sampler->bounds();
  gpu_sampler->pad_nodes(shape);
  use_own_stream(kRowsGpu);
  const cuda::Stream stream = current_stream(kRowsGpu);
  const RowOptimizer optimizer =
      GetParam() == nn::ModelKind::sage ? RowOptimizer::adam : RowOptimizer::adagrad;
  LearnedRows rows = rows_on(kRowsGpu, optimizer), wanted = rows_on({}, optimizer);
  const at::Tensor before = wanted.table().clone(),
                   real = at::zeros({kRowsSeeds, 1}, at::TensorOptions().device(at::kCUDA));
  // Without the rows' own squares, sums may cancel, as those of a row do which only attention's keys of dst nodes
  // read; updates by the mean of squares would magnify what rounding leaves.
  const auto loss_of = [](const at::Tensor& logits, const LearnedRows::Input& input) {
    return logits.square().sum().add(input.input.square().sum());
  };
  StepGraphs step(1);
  RowGradients gradients;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Count num_seeds = i == 3 ? 0 : kRowsSeeds - 7 * static_cast<Count>(i);
    const auto seeds = test::random_nodes(num_seeds, 0, graph.num_nodes(), i);
    const BatchKey key{.seed = 1, .epoch = i, .step = 10 + i};
    sampling::MiniBatch batch = gpu_sampler->sample(seeds, key, 0, stream);
    ASSERT_TRUE(sampling::pad(batch, shape));
    real.zero_();
    real.narrow(0, 0, num_seeds).fill_(1);
    const auto work = [&] {
      const LearnedRows::Input input = rows.training_input({}, batch);
      const at::Tensor logits =
          model->forward(input.input, batch, {.key = {}, .training = true, .device_key = batch.device_key});
      loss_of(logits * real, input).backward();
      gradients = input.gradients();
    };
    if (i < 2) {
      work();
    } else {
      if (!step.recorded(0)) step.record(0, work);
      step.replay(0);
    }
    rows.update(gradients, {});

    const sampling::MiniBatch exact = cpu_sampler->sample(seeds, key, 0, {});
    if (num_seeds > 0) {
      const LearnedRows::Input input = wanted.training_input({}, exact);
      loss_of(reference->forward(input.input, exact, {.key = key, .training = true}), input).backward();
      const RowGradients exact_gradients = input.gradients();
      const auto sums_of = [&](const RowGradients& of) {
        const at::Tensor ids = of.rows.cpu(), are_rows = ids.lt(before.size(0));
        return at::zeros_like(before).index_add_(0, ids.index({are_rows}),
                                                 of.gradients.cpu().index({are_rows}));
      };
      const at::Tensor sums = sums_of(exact_gradients);
      EXPECT_LT((sums_of(gradients) - sums).abs().max().item<double>(),
                1e-5 * sums.abs().max().item<double>());
      wanted.update(exact_gradients, {});
    }
    SCOPED_TRACE("batch " + std::to_string(i));
    const at::Tensor updated = (wanted.table() - before).abs().amax(1).gt(0),
                     got = (rows.table().cpu() - before).abs().amax(1).gt(0);
    ASSERT_TRUE(updated.any().item<bool>());
    EXPECT_TRUE(got.equal(updated)) << "rows that no batch has read";
    EXPECT_LT((rows.table().cpu() - wanted.table()).abs().max().item<double>(), 1e-4);
  }
}

// Sums over rows that repeat have the same order on both devices.
TEST_P(LearnedStep, SumsRepeatedRowsInTheirOrder) {
  LearnedRows rows = rows_on(kRowsGpu, RowOptimizer::adagrad), wanted = rows_on({}, RowOptimizer::adagrad);
  const at::Tensor ids = at::randint(kLearnedNodes - 100 + 1, {5000}, at::kLong),
                   values = at::randn({5000, kLearnedWidth});
  use_own_stream(kRowsGpu);
  rows.update({ids.to(at::kCUDA), values.to(at::kCUDA)}, {});
  wanted.update({ids, values}, {});
  EXPECT_LT((rows.table().cpu() - wanted.table()).abs().max().item<double>(), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Models, LearnedStep,
                         testing::Values(nn::ModelKind::sage, nn::ModelKind::gcn, nn::ModelKind::gat,
                                         nn::ModelKind::rgcn, nn::ModelKind::rgat));

}  // namespace
}  // namespace strata::train
