// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include "step/step_graph.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/nn/model.hpp"
#include "strata/sampling/sampler.hpp"
#include "support/blocks.hpp"
#include "support/reference_sampler.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};
constexpr Count kSeeds = 100, kCols = 20, kClasses = 5;

struct Case {
  nn::ModelKind model;
  bool table;
  double dropout;
  bool on_cpu = false;  ///< the CPU samples for the GPU
  bool residual = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << enum_name(c.model) << (c.table ? " in place" : "") << " dropout " << c.dropout
             << (c.on_cpu ? " sampled on the cpu" : "") << (c.residual ? " residual" : "");
}

class PaddedStep : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }

  static nn::ModelOptions options() {
    return {.kind = GetParam().model,
            .in_cols = kCols,
            .hidden = 16,
            .out_cols = kClasses,
            .num_layers = 2,
            .heads = {2},
            .residual = GetParam().residual,
            .dropout = GetParam().dropout,
            .seed = 3};
  }

  sampling::SamplerOptions sampler_options(const nn::BlockModel& model) const {
    return {.fanouts = {5, 4},
            .max_seeds = kSeeds,
            .in_degrees = model.traits().needs_in_degrees,
            .transpose = true,
            .input_transpose = model.traits().needs_input_transpose};
  }
};

/// Logits of the real seeds and the gradients of the sum of their squares.
struct Outcome {
  at::Tensor logits;
  std::vector<at::Tensor> gradients;
};

void zero_gradients(nn::BlockModel& model) {
  for (at::Tensor& parameter : model.parameters()) {
    if (!parameter.grad().defined())
      parameter.mutable_grad() = at::zeros(parameter.sizes(), parameter.options());
    parameter.mutable_grad().zero_();
  }
}

Outcome outcome_of(nn::BlockModel& model, const at::Tensor& logits, Count num_seeds) {
  Outcome result{logits.detach().narrow(0, 0, num_seeds).cpu(), {}};
  for (const at::Tensor& parameter : model.parameters()) result.gradients.push_back(parameter.grad().cpu());
  return result;
}

void expect_near(const Outcome& actual, const Outcome& expected) {
  EXPECT_LE((actual.logits - expected.logits).abs().max().item<float>(), 1e-4);
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    const double size = expected.gradients[i].abs().max().item<double>();
    EXPECT_LE((actual.gradients[i] - expected.gradients[i]).abs().max().item<double>(), 1e-4 * (1 + size))
        << "parameter " << i;
  }
}

// A step that was recorded for one batch, replayed for others of fewer seeds and other keys, equals what the
// CPU makes of each with its own sizes.
TEST_P(PaddedStep, ReplaysToWhatTheCpuComputes) {
  const test::PlainGraph graph = test::renumbered(test::random_graph({.num_nodes = 3000, .seed = 4}), 5);
  const test::ViewOwner on_gpu(graph, {.device = kGpu}), on_cpu(graph, {});
  ThreadPool pool(1);
  const auto model = nn::make_model(options()), reference = nn::make_model(options());
  model->to(at::Device(at::kCUDA, 0));
  sampling::SamplerOptions sampling = sampler_options(*model);
  const auto cpu_sampler = sampling::make_sampler(on_cpu.view(), sampler_options(*reference), {}, 1, pool);
  sampling.strided = model->traits().takes_strided;
  sampling.compact_inputs = !GetParam().table;
  const auto gpu_sampler =
      GetParam().on_cpu
          ? sampling::make_uploading_sampler(on_cpu.view(), sampling, {}, 1, {.device = kGpu, .pool = &pool})
          : sampling::make_sampler(on_gpu.view(), sampling, {}, 1, pool);
  const sampling::PaddedShape shape = gpu_sampler->bounds();
  gpu_sampler->pad_nodes(shape);

  const at::Tensor rows = test::random_rows(graph.num_nodes(), kCols, 9);
  const at::Tensor table = rows.to(at::Device(at::kCUDA, 0));
  use_own_stream(kGpu);
  const cuda::Stream stream = current_stream(kGpu);
  const Count num_inputs = GetParam().table ? 0 : shape.nodes.back();
  const at::Tensor gathered = at::empty({num_inputs, kCols}, table.options());
  const at::Tensor real = at::zeros({kSeeds, 1}, table.options());
  StepGraphs step(1);
  at::Tensor logits;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Count num_seeds = i == 3 ? 0 : kSeeds - 7 * static_cast<Count>(i);
    const auto seeds = test::random_nodes(num_seeds, 0, graph.num_nodes(), i);
    const BatchKey key{.seed = 1, .epoch = i, .step = 10 + i};
    sampling::MiniBatch batch = gpu_sampler->sample(seeds, key, 0, stream);
    ASSERT_TRUE(sampling::pad(batch, shape));
    if (!GetParam().table) {
      std::vector<NodeId> ids(at(num_inputs));
      cuda::copy_async(ids.data(), batch.input_nodes(), ids.size() * sizeof(NodeId), stream);
      stream.synchronize();
      at::Tensor host = at::zeros({num_inputs, kCols}, rows.options());
      for (Count r = 0; r < num_inputs; ++r) {
        const NodeId id = ids[at(r)];
        if (id >= 0) host[r] = rows[id];
      }
      gathered.copy_(host);
    }
    real.zero_();
    real.narrow(0, 0, num_seeds).fill_(1);
    zero_gradients(*model);
    const auto work = [&] {
      const nn::Pass pass{.key = {}, .training = true, .device_key = batch.device_key};
      logits = model->forward(GetParam().table ? table : gathered, batch, pass);
      (logits * real).square().sum().backward();
    };
    if (i < 2) {
      work();
    } else {
      if (!step.recorded(0)) step.record(0, work);
      step.replay(0);
    }
    const Outcome actual = outcome_of(*model, logits, num_seeds);

    const sampling::MiniBatch exact = cpu_sampler->sample(seeds, key, 0, {});
    at::Tensor x = at::empty({exact.num_inputs(), kCols}, rows.options());
    for (Count r = 0; r < exact.num_inputs(); ++r) x[r] = rows[exact.input_nodes()[r]];
    zero_gradients(*reference);
    const at::Tensor expected = reference->forward(x, exact, {.key = key, .training = true});
    expected.square().sum().backward();
    SCOPED_TRACE("batch " + std::to_string(i));
    if (num_seeds > 0) expect_near(actual, outcome_of(*reference, expected, num_seeds));
    for (const at::Tensor& gradient : actual.gradients) EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PaddedStep,
    testing::Values(Case{nn::ModelKind::sage, true, 0.0}, Case{nn::ModelKind::sage, true, 0.5},
                    Case{nn::ModelKind::sage, false, 0.5}, Case{nn::ModelKind::gcn, false, 0.5},
                    Case{nn::ModelKind::gin, false, 0.5}, Case{nn::ModelKind::gat, false, 0.5},
                    Case{nn::ModelKind::gat, true, 0.0}, Case{nn::ModelKind::gat, true, 0.5},
                    Case{nn::ModelKind::sage, true, 0.5, true}, Case{nn::ModelKind::sage, false, 0.5, true},
                    Case{nn::ModelKind::gcn, false, 0.5, true}, Case{nn::ModelKind::gat, false, 0.5, true},
                    Case{nn::ModelKind::gat, true, 0.5, true},
                    Case{.model = nn::ModelKind::gat, .table = false, .dropout = 0.5, .residual = true}));

}  // namespace
}  // namespace strata::train
