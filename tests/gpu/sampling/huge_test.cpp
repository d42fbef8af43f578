// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"
#include "support/huge_graphs.hpp"
#include "support/methods.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::HugeHub;
using test::MethodCase;
using test::ShiftedGraph;

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};

class HugeGraphsOnGpu : public testing::TestWithParam<MethodCase> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  static SamplerOptions options(std::vector<int> fanouts, bool strided) {
    SamplerOptions options = GetParam().options(std::move(fanouts), 10);
    options.in_degrees = false;
    options.strided = strided;
    return options;
  }
  ThreadPool pool_{0};
};
INSTANTIATE_TEST_SUITE_P(Methods, HugeGraphsOnGpu, testing::ValuesIn(test::all_methods()),
                         testing::PrintToStringParamName());

TEST_P(HugeGraphsOnGpu, ChooseFromAHundredMillionNeighborsAsTheCpu) {
  const HugeHub on_gpu(kGpu), on_cpu(Device{});
  const cuda::Stream stream(kGpu);
  const std::vector<NodeId> seeds{4, HugeHub::kHub, 400};
  for (const int fanout : {10, 50}) {
    const auto cpu = make_sampler(on_cpu.view(), options({fanout}, false), {}, 1, pool_);
    const auto expected = test::plain_blocks(cpu->sample(seeds, {.seed = 5}, 0, {}), {});
    for (const bool strided : {false, true}) {
      SCOPED_TRACE(std::to_string(fanout) + (strided ? " strided" : " packed"));
      const auto gpu = make_sampler(on_gpu.view(), options({fanout}, strided), {}, 1, pool_);
      test::expect_equal(test::plain_blocks(gpu->sample(seeds, {.seed = 5}, 0, stream), stream), expected);
    }
  }
}

TEST_P(HugeGraphsOnGpu, OfWideIdsAreSampledAsOthers) {
  constexpr NodeId kShift = (NodeId{1} << 31) + 77;
  const ShiftedGraph high(kShift, kGpu), low(0, Device{});
  const cuda::Stream stream(kGpu);
  const std::vector<NodeId> seeds{3, 0, 699, 100, 101};
  std::vector<NodeId> high_seeds;
  for (const NodeId seed : seeds) high_seeds.push_back(seed + kShift);
  const auto cpu = make_sampler(low.view(), options({5, 40, 3}, false), {}, 1, pool_);
  const auto expected = test::plain_blocks(cpu->sample(seeds, {.seed = 5}, 0, {}), {});
  for (const bool strided : {false, true}) {
    const auto gpu = make_sampler(high.view(), options({5, 40, 3}, strided), {}, 1, pool_);
    auto actual = test::plain_blocks(gpu->sample(high_seeds, {.seed = 5}, 0, stream), stream);
    for (test::PlainBlock& block : actual)
      for (auto* nodes : {&block.src_nodes, &block.sorted_inputs})
        for (NodeId& node : *nodes) node -= kShift;
    test::expect_equal(actual, expected);
  }
}

}  // namespace
}  // namespace strata::sampling
