// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "strata/cuda/device.hpp"
#include "support/evaluation_cases.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

using Compute = comm::TopologyOptions::Compute;

struct Case {
  test::ModelCase kind;
  std::int64_t gpu_budget_bytes;
};

class ExactEvaluationOnGpu : public testing::TestWithParam<Case> {};

// In whole lists and in pieces, by weight and without, against dense matrices.
TEST_P(ExactEvaluationOnGpu, AgreesWithADenseForward) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  constexpr Count kSmallChunk = 1 << 14;
  const auto graph = test::hub_graph({.seed = 4});
  for (const int ranks_per_machine : {0, 1}) {
    const test::LoadedGraph loaded(test::world().communicator(), *graph,
                                   {.name = "gpu_evaluation",
                                    .ranks_per_machine = ranks_per_machine,
                                    .compute = Compute::cuda,
                                    .gpu_budget_bytes = GetParam().gpu_budget_bytes,
                                    .degrees_of_loops = GetParam().kind.kind != nn::ModelKind::gcn});
    const Device device = loaded.machine().device();
    use_own_stream(device);
    const auto model = test::hub_model(GetParam().kind, 3);
    model->to(torch_device(device));
    ThreadPool pool(2);
    for (const auto method : {sampling::Method::uniform, sampling::Method::weighted}) {
      const std::vector<bool> by_weight(3, method == sampling::Method::weighted);
      const at::Tensor wanted =
          test::DenseForward{graph.get(), model.get(), GetParam().kind, by_weight}.logits();
      for (const Count chunk_bytes : {Count{0}, kSmallChunk}) {
        EvaluationContext context = loaded.context(pool);
        context.sampler.method = method;
        context.chunk_bytes = chunk_bytes;
        SCOPED_TRACE(testing::Message() << "chunk " << chunk_bytes << ", by weight " << by_weight[0] << ", "
                                        << ranks_per_machine << " ranks per machine");
        test::expect_close(test::predicted(*model, context, loaded.folder()), wanted);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ExactEvaluationOnGpu,
                         testing::Values(Case{{nn::ModelKind::sage}, 0}, Case{{nn::ModelKind::sage}, 1 << 24},
                                         Case{{nn::ModelKind::sage, nn::Aggregate::max}, 1 << 24},
                                         Case{{nn::ModelKind::gcn}, 1 << 24},
                                         Case{{nn::ModelKind::gin}, 1 << 24}, Case{{nn::ModelKind::gat}, 0},
                                         Case{{nn::ModelKind::gat}, 1 << 24},
                                         Case{{.kind = nn::ModelKind::gat, .residual = true}, 1 << 24}));

}  // namespace
}  // namespace strata::train
