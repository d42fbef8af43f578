// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/util/error.hpp"
#include "support/methods.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::MethodCase;
using test::PlainGraph;
using test::ViewOwner;

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};

template <typename T>
std::vector<T> to_host(const T* data, Count first, Count end, const cuda::Stream& stream) {
  std::vector<T> values(static_cast<std::size_t>(end - first));
  cuda::copy_async(values.data(), data + first, values.size() * sizeof(T), stream);
  stream.synchronize();
  return values;
}

class Uploading : public testing::TestWithParam<MethodCase> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, Uploading, testing::ValuesIn(test::all_methods()),
                         testing::PrintToStringParamName());

void expect_counts(const MiniBatch& batch, const cuda::Stream& stream) {
  const auto hops = static_cast<Count>(batch.blocks.size());
  const std::vector<Count> counts = to_host(batch.device_counts, 0, 2 * hops + 1, stream);
  for (Count hop = 0; hop < hops; ++hop) {
    const Block& block = batch.blocks[static_cast<std::size_t>(hops - 1 - hop)];
    EXPECT_EQ(counts[static_cast<std::size_t>(hop)], block.num_dst);
    EXPECT_EQ(counts[static_cast<std::size_t>(hop + 1)], block.num_src);
    EXPECT_EQ(counts[static_cast<std::size_t>(hops + 1 + hop)], block.num_edges);
  }
}

// Sizes go up and down and the buffers take turns, so that every buffer holds something old.
TEST_P(Uploading, GivesTheBlocksOfTheCpu) {
  const PlainGraph graph = test::renumbered(
      test::random_graph({.num_nodes = 20000, .mean_degree = 12, .hub_degree = 9000, .seed = 3}), 4);
  ThreadPool pool(2);
  const cuda::Stream stream(kGpu);
  for (const bool wide : {false, true}) {
    const ViewOwner owner(graph, {.wide = wide});
    const SamplerOptions options = GetParam().options({6, 4, 3}, 500);
    const auto uploading = make_uploading_sampler(owner.view(), options, {}, 2, {kGpu, &pool});
    const auto cpu = make_sampler(owner.view(), options, {}, 1, pool);
    std::uint32_t step = 0;
    for (const Count num_seeds : {500, 3, 0, 400, 1, 500, 499}) {
      SCOPED_TRACE("step " + std::to_string(step));
      const auto seeds = test::random_nodes(num_seeds, 0, graph.num_nodes(), step);
      const BatchKey key{.seed = 11, .epoch = 2, .step = step};
      const MiniBatch batch = uploading->sample(seeds, key, static_cast<int>(step % 2), stream);
      EXPECT_EQ(batch.num_seeds, num_seeds);
      EXPECT_EQ(batch.blocks.front().device, kGpu);
      test::expect_equal(test::plain_blocks(batch, stream),
                         test::plain_blocks(cpu->sample(seeds, key, 0, {}), {}));
      expect_counts(batch, stream);
      EXPECT_EQ(to_host(batch.device_key, 0, 1, stream).front().step, step);
      ++step;
    }
  }
}

// Batches that fit the shape lie where the first of their buffer lay, whatever lies between them.
TEST_P(Uploading, PadsWhatFits) {
  const PlainGraph graph = test::random_graph({.num_nodes = 20000, .mean_degree = 12, .seed = 5});
  const ViewOwner owner(graph, {});
  ThreadPool pool(2);
  const cuda::Stream stream(kGpu);
  SamplerOptions options = GetParam().options({6, 4}, 500);
  options.input_transpose = true;
  const auto sampler = make_uploading_sampler(owner.view(), options, {}, 1, {kGpu, &pool});
  const auto cpu = make_sampler(owner.view(), options, {}, 1, pool);
  const PaddedShape shape{.nodes = {400, 3000, 15000}, .entries = {4000, 20000}};
  sampler->pad_nodes(shape);
  const NodeId* first_nodes = nullptr;
  std::uint32_t step = 0;
  for (const Count num_seeds : {300, 500, 0, 200, 450, 300}) {
    SCOPED_TRACE("step " + std::to_string(step));
    const auto seeds = test::random_nodes(num_seeds, 0, graph.num_nodes(), step);
    MiniBatch batch = sampler->sample(seeds, {.step = step}, 0, stream);
    const MiniBatch expected = cpu->sample(seeds, {.step = step}, 0, {});
    test::expect_equal(test::plain_blocks(batch, stream), test::plain_blocks(expected, {}));
    MiniBatch plain = expected;
    const bool fits = pad(plain, shape);
    EXPECT_EQ(fits, num_seeds <= 400);
    ASSERT_EQ(pad(batch, shape), fits);
    if (fits) {
      if (first_nodes == nullptr) first_nodes = batch.input_nodes();
      EXPECT_EQ(batch.input_nodes(), first_nodes);
      const Block &input = batch.blocks.front(), &real = expected.blocks.front();
      EXPECT_EQ(input.num_src, 15000);
      for (const NodeId node : to_host(input.src_nodes, real.num_src, input.num_src, stream))
        ASSERT_EQ(node, -1);
      for (const NodeId original : to_host(input.src_original_ids, real.num_src, input.num_src, stream))
        ASSERT_EQ(original, 0);
      for (const std::int32_t degree : to_host(input.src_in_degrees, real.num_src, input.num_src, stream))
        ASSERT_EQ(degree, 0);
      for (const NodeId node : to_host(batch.sorted_inputs, real.num_src, input.num_src, stream))
        ASSERT_EQ(node, -1);
      Count next = real.num_src;
      for (const std::int32_t at : to_host(batch.sorted_positions, real.num_src, input.num_src, stream))
        ASSERT_EQ(at, next++);
      for (const Count end : to_host(input.indptr, real.num_dst, input.num_dst + 1, stream))
        ASSERT_EQ(end, real.num_edges);
      for (const Count end : to_host(input.transposed_indptr, real.num_src, input.num_src + 1, stream))
        ASSERT_EQ(end, real.num_edges);
    } else {
      EXPECT_NE(batch.input_nodes(), first_nodes);
    }
    ++step;
  }
}

TEST_P(Uploading, LeavesInputsUncompacted) {
  const PlainGraph graph = test::random_graph({.num_nodes = 5000, .seed = 8});
  const ViewOwner owner(graph, {}), wide(graph, {.wide = true});
  ThreadPool pool(1);
  const cuda::Stream stream(kGpu);
  const auto seeds = test::random_nodes(100, 0, graph.num_nodes(), 4);
  SamplerOptions options = GetParam().options({6, 4}, 100);
  const auto whole = make_sampler(owner.view(), options, {}, 1, pool);
  options.compact_inputs = false;
  options.sorted_inputs = false;
  const auto raw = make_uploading_sampler(owner.view(), options, {}, 1, {kGpu, &pool});
  const auto expected = test::plain_blocks(whole->sample(seeds, {}, 0, {}), {});
  const MiniBatch batch = raw->sample(seeds, {}, 0, stream);
  EXPECT_TRUE(batch.blocks.front().global_indices);
  EXPECT_EQ(batch.num_inputs(), std::ssize(expected[1].src_nodes));
  const auto actual = test::plain_blocks(batch, stream);
  EXPECT_EQ(actual[1].indices, expected[1].indices);
  ASSERT_EQ(actual[0].indices.size(), expected[0].indices.size());
  for (std::size_t e = 0; e < actual[0].indices.size(); ++e) {
    const auto local = static_cast<std::size_t>(expected[0].indices[e]);
    ASSERT_EQ(actual[0].indices[e], expected[0].src_nodes[local]);
  }
}

}  // namespace
}  // namespace strata::sampling
