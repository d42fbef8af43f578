// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/util/error.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::PlainGraph;
using test::ViewOwner;

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};

__global__ void measure_kernel(DeviceQuery query, Count* counts) {
  for (Count i = threadIdx.x; i <= query.frontier.bound; i += blockDim.x)
    counts[i] = i < *query.frontier.count ? query.fanout : 0;
}

/// Pick j of node v holds v + 1 + (step + j) % 3.
template <typename Id>
__global__ void choose_kernel(DeviceQuery query, DevicePickOutput<Id> out, Count num_nodes) {
  for (Count i = threadIdx.x; i < *query.frontier.count; i += blockDim.x) {
    for (int j = 0; j < query.fanout; ++j) {
      const Count pick = out.offsets[i] + j;
      const NodeId neighbor = (query.frontier.nodes[i] + 1 + (query.key->step + j) % 3) % num_nodes;
      out.neighbors[pick] = static_cast<Id>(neighbor);
      if (out.edge_ids != nullptr) out.edge_ids[pick] = 100 * query.frontier.nodes[i] + j;
      if (out.met != nullptr) atomicOr(out.met + neighbor / 32, 1u << (neighbor % 32));
    }
  }
}

template <typename Id>
class NextNodes final : public DevicePickChooser<Id> {
 public:
  explicit NextNodes(Count num_nodes) : num_nodes_(num_nodes) {}
  bool fills_strided(int) const override { return false; }
  void measure(const DeviceQuery& query, DeviceRange*, Count* counts, const cuda::Stream& stream) override {
    measure_kernel<<<1, 256, 0, stream.get()>>>(query, counts);
  }
  void choose(const DeviceQuery& query, const DeviceRange*, const DevicePickOutput<Id>& out,
              const cuda::Stream& stream) override {
    choose_kernel<<<1, 256, 0, stream.get()>>>(query, out, num_nodes_);
  }

 private:
  Count num_nodes_;
};

TEST(UserDeviceChooser, FillsTheBlocks) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  const PlainGraph graph = test::random_graph({.num_nodes = 50});
  const ViewOwner owner(graph, {.device = kGpu});
  ThreadPool pool(1);
  SamplerOptions options{.fanouts = {2, 1}, .max_seeds = 2, .edge_ids = true};
  options.device_chooser.narrow = [](const store::GraphView& view) {
    return std::make_unique<NextNodes<std::int32_t>>(view.num_nodes);
  };
  const auto sampler = make_sampler(owner.view(), options, {}, 1, pool);
  const cuda::Stream stream(kGpu);
  for (std::uint32_t step = 0; step < 6; ++step) {  // the later ones replay a graph
    SCOPED_TRACE(step);
    const auto blocks = test::plain_blocks(
        sampler->sample(std::vector<NodeId>{7, 49}, {.seed = 1, .step = step}, 0, stream), stream);
    const auto next = [step](NodeId v, std::uint32_t j) { return (v + 1 + (step + j) % 3) % 50; };
    const auto node = [](const test::PlainBlock& block, std::size_t e) {
      return block.src_nodes[static_cast<std::size_t>(block.indices[e])];
    };
    EXPECT_EQ(blocks[1].indptr, (std::vector<Count>{0, 2, 4}));
    EXPECT_EQ(blocks[1].edge_ids, (std::vector<EdgeId>{700, 701, 4900, 4901}));
    for (std::uint32_t j = 0; j < 2; ++j) {
      EXPECT_EQ(node(blocks[1], j), next(7, j));
      EXPECT_EQ(node(blocks[1], 2 + j), next(49, j));
    }
    for (std::size_t i = 0; i < blocks[1].src_nodes.size(); ++i)
      EXPECT_EQ(node(blocks[0], i), next(blocks[1].src_nodes[i], 0));
  }
}

TEST(UserDeviceChooser, IsAskedForOnAGpu) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  const ViewOwner on_gpu(test::random_graph({.num_nodes = 50}), {.device = kGpu}),
      on_cpu(test::random_graph({.num_nodes = 50}), {});
  ThreadPool pool(1);
  SamplerOptions options{.fanouts = {2}, .max_seeds = 2};
  options.device_chooser.wide = [](const store::GraphView& view) {
    return std::make_unique<NextNodes<std::int64_t>>(view.num_nodes);
  };
  EXPECT_THROW(make_sampler(on_gpu.view(), options, {}, 1, pool), InputError);
  EXPECT_THROW(make_sampler(on_cpu.view(), options, {}, 1, pool), InputError);
}

}  // namespace
}  // namespace strata::sampling
