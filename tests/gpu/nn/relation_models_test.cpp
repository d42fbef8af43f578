// SPDX-License-Identifier: Apache-2.0
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include "layers/relation_rows.hpp"
#include "strata/nn/model.hpp"
#include "support/typed_blocks.hpp"

namespace strata::nn {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);
constexpr Count kDst = 300, kSrc = 900;

struct Case {
  ModelKind kind;
  bool bf16 = false;
  double attention_dropout = 0;
};

/// The outputs of a layer, and the gradients of its input and of the parameters, on the host.
std::vector<at::Tensor> results_of(const Case& c, const test::TypedBlock& block, const c10::Device& device) {
  const auto model = make_model({.kind = c.kind,
                                 .in_cols = 13,
                                 .hidden = 24,
                                 .out_cols = 5,
                                 .attention_dropout = c.attention_dropout,
                                 .dropout = 0.3,
                                 .bf16 = c.bf16,
                                 .seed = 4,
                                 .types = test::citation_types()});
  model->to(device);
  const test::OwnedBlock moved = block.block.to(device);
  const at::Tensor edge_ids = block.edge_ids.to(device);
  sampling::Block view = moved.view();
  view.edge_ids = edge_ids.const_data_ptr<std::int64_t>();
  std::vector<at::Tensor> results;
  for (int layer = 0; layer < 2; ++layer) {
    at::Tensor x = test::random_rows(kSrc, layer == 0 ? 13 : 24, 3).to(device).requires_grad_(layer == 1);
    const at::Tensor out = model->forward_layer(layer, x, view, {.key = {.seed = 1}, .training = true});
    out.backward(test::random_rows(kDst, out.size(1), 5).to(device).to(out.scalar_type()));
    results.push_back(out.detach().to(at::kFloat).cpu());
    if (layer == 1) results.push_back(x.grad().cpu());
  }
  for (const at::Tensor& parameter : model->parameters())
    if (parameter.grad().defined()) results.push_back(parameter.grad().cpu());
  return results;
}

class RelationModelsOnAGpu : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
};

TEST_P(RelationModelsOnAGpu, ComputeWhatTheCpuDoes) {
  const test::TypedBlock block = test::random_typed_block(test::citation_types(), kDst, kSrc, 7);
  const auto wanted =
      results_of({GetParam().kind, false, GetParam().attention_dropout}, block, c10::Device(c10::kCPU));
  const auto got = results_of(GetParam(), block, kGpu), again = results_of(GetParam(), block, kGpu);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const at::Tensor difference = got[i] - wanted[i];
    if (GetParam().bf16) {  // single elements differ by more, where rounding changes the sign before a ReLU
      EXPECT_LE(difference.norm().item<float>(), 0.12f * wanted[i].norm().item<float>()) << i;
    } else {
      const float largest = 1 + wanted[i].abs().max().item<float>();
      EXPECT_LT(difference.abs().max().item<float>() / largest, 1e-4f) << i;
    }
    EXPECT_TRUE(got[i].equal(again[i])) << i << ": other bits again";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RelationModelsOnAGpu,
                         testing::Values(Case{ModelKind::rgcn}, Case{ModelKind::rgcn, true},
                                         Case{ModelKind::rsage}, Case{ModelKind::rsage, true},
                                         Case{ModelKind::rgat}, Case{ModelKind::rgat, true},
                                         Case{ModelKind::rgat, false, 0.3}, Case{ModelKind::hgt},
                                         Case{ModelKind::hgt, true}, Case{ModelKind::hgt, false, 0.3}),
                         [](const auto& info) {
                           return std::string(enum_name(info.param.kind)) + (info.param.bf16 ? "_bf16" : "") +
                                  (info.param.attention_dropout > 0 ? "_dropout" : "");
                         });

}  // namespace
}  // namespace strata::nn
