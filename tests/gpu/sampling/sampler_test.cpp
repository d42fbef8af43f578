// SPDX-License-Identifier: Apache-2.0
#include "strata/sampling/sampler.hpp"

#include <gtest/gtest.h>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::PlainGraph;
using test::ViewOwner;

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};

/// Leaves non-zero bytes in memory that the next allocations are likely to get.
void poison_device_memory() {
  constexpr Count kBytes = Count{256} << 20;
  const cuda::Stream stream(kGpu);
  const cuda::Array<std::byte> poison(cuda::Memory::device, kBytes, "poison", kGpu);
  cuda::fill_async(poison.data(), 0xA5, kBytes, stream);
  stream.synchronize();
}

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    poison_device_memory();
  }
};

struct Case {
  std::vector<int> fanouts;
  bool wide = false;
  bool everything = true;  // edge ids, degrees and transposes
  bool strided = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << "fanouts";
  for (const int f : c.fanouts) out << ' ' << f;
  return out << (c.wide ? ", i64" : ", i32") << (c.everything ? "" : ", bare")
             << (c.strided ? ", strided" : "");
}

class GpuSampler : public GpuTest, public testing::WithParamInterface<Case> {
 protected:
  SamplerOptions options(Count max_seeds) const {
    const bool all = GetParam().everything;
    return {.fanouts = GetParam().fanouts,
            .max_seeds = max_seeds,
            .edge_ids = all,
            .in_degrees = all,
            .transpose = all,
            .input_transpose = GetParam().wide,
            .strided = GetParam().strided,
            .sorted_inputs = all};
  }
};

// Sizes go up and down and the buffers take turns, so that every buffer holds something old.
TEST_P(GpuSampler, EqualsTheCpu) {
  const PlainGraph graph = test::renumbered(test::random_graph({.num_nodes = 100000, .seed = 3}), 4);
  const ViewOwner on_gpu(graph, {.wide = GetParam().wide, .device = kGpu}),
      on_cpu(graph, {.wide = GetParam().wide});
  ThreadPool pool(2);
  const auto gpu = make_sampler(on_gpu.view(), options(1024), {}, 2, pool);
  const auto cpu = make_sampler(on_cpu.view(), options(1024), {}, 1, pool);
  const cuda::Stream stream(kGpu);
  std::uint32_t step = 0;
  for (const Count num_seeds : {1024, 3, 0, 700, 1, 1024, 1023, 2}) {
    SCOPED_TRACE("step " + std::to_string(step) + ", " + std::to_string(num_seeds) + " seeds");
    const auto seeds = test::random_nodes(num_seeds, 0, graph.num_nodes(), step);
    const BatchKey key{.seed = 11, .epoch = 2, .step = step};
    const MiniBatch batch = gpu->sample(seeds, key, static_cast<int>(step % 2), stream);
    EXPECT_EQ(batch.num_seeds, num_seeds);
    test::expect_equal(test::plain_blocks(batch, stream),
                       test::plain_blocks(cpu->sample(seeds, key, 0, {}), {}));
    ++step;
  }
}

TEST_P(GpuSampler, EqualsTheReference) {
  const PlainGraph graph = test::renumbered(test::random_graph({.num_nodes = 3000, .seed = 5}), 6);
  const ViewOwner owner(graph, {.wide = GetParam().wide, .device = kGpu});
  ThreadPool pool(1);
  const auto sampler = make_sampler(owner.view(), options(50), {}, 1, pool);
  const auto seeds = test::random_nodes(50, 0, graph.num_nodes(), 1);
  const cuda::Stream stream(kGpu);
  test::expect_equal(test::plain_blocks(sampler->sample(seeds, {.seed = 3}, 0, stream), stream),
                     test::reference_blocks(graph, seeds, options(50), {.seed = 3}));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GpuSampler,
    testing::Values(Case{{5}}, Case{{5, 3, 2}}, Case{{15, 10, 5}, true}, Case{{-1}}, Case{{-1, 4}},
                    Case{{3, -1}, true}, Case{{-1, -1}}, Case{{0}}, Case{{2, 0, 3}}, Case{{40, 2}},
                    Case{{100, 3}}, Case{{4, 4}, false, false}, Case{{15, 10, 5}, false, true, true},
                    Case{{5, 3, 2}, true, true, true}, Case{{64, 1, 33}, false, true, true},
                    Case{{3, 100, 2}, false, true, true}, Case{{0, 2}, false, true, true},
                    Case{{30, 20}, false, false, true}, Case{{2, -1}, false, true, true}));

class GpuSampling : public GpuTest {};

// Which Python's libraries take, and which cannot be recorded.
TEST_F(GpuSampling, TakesTheDefaultStream) {
  const PlainGraph graph = test::renumbered(test::random_graph({.num_nodes = 3000, .seed = 5}), 6);
  const ViewOwner owner(graph, {.device = kGpu});
  const SamplerOptions options{.fanouts = {5, 3}, .max_seeds = 50};
  ThreadPool pool(1);
  const auto sampler = make_sampler(owner.view(), options, {}, 1, pool);
  const cuda::Stream stream = cuda::Stream::borrow(kGpu, nullptr);
  for (std::uint32_t step = 0; step < 4; ++step) {
    const auto seeds = test::random_nodes(50, 0, graph.num_nodes(), step);
    const BatchKey key{.seed = 3, .step = step};
    test::expect_equal(test::plain_blocks(sampler->sample(seeds, key, 0, stream), stream),
                       test::reference_blocks(graph, seeds, options, key));
  }
}

TEST_F(GpuSampling, ChoosesFromAHub) {
  const PlainGraph graph =
      test::random_graph({.num_nodes = 20000, .mean_degree = 2, .hub_degree = 1000000, .seed = 5});
  const ViewOwner owner(graph, {.device = kGpu});
  ThreadPool pool(1);
  const cuda::Stream stream(kGpu);
  const std::vector<NodeId> seeds{3, 10000, 4};
  for (const int fanout : {10, 1000, -1}) {
    const SamplerOptions options{.fanouts = {fanout, 2}, .max_seeds = 3, .edge_ids = true, .transpose = true};
    const auto sampler = make_sampler(owner.view(), options, {}, 1, pool);
    test::expect_equal(test::plain_blocks(sampler->sample(seeds, {.seed = 1}, 0, stream), stream),
                       test::reference_blocks(graph, seeds, options, {.seed = 1}));
  }
}

TEST_F(GpuSampling, KeepsEarlierBuffersOfOtherStreams) {
  const PlainGraph graph = test::random_graph({});
  const ViewOwner owner(graph, {.device = kGpu});
  ThreadPool pool(1);
  const SamplerOptions options{.fanouts = {4, 3}, .max_seeds = 100, .transpose = true};
  const auto sampler = make_sampler(owner.view(), options, {}, 3, pool);
  std::vector<cuda::Stream> streams;
  std::vector<MiniBatch> batches;
  std::vector<std::vector<NodeId>> seeds;
  for (std::uint32_t buffer = 0; buffer < 3; ++buffer) {
    seeds.push_back(test::random_nodes(10 + 20 * buffer, 0, graph.num_nodes(), buffer));
    streams.emplace_back(kGpu);
    batches.push_back(
        sampler->sample(seeds.back(), {.step = buffer}, static_cast<int>(buffer), streams.back()));
  }
  for (std::uint32_t buffer = 0; buffer < 3; ++buffer) {
    test::expect_equal(test::plain_blocks(batches[buffer], streams[buffer]),
                       test::reference_blocks(graph, seeds[buffer], options, {.step = buffer}));
  }
}

// So many nodes that a warp of the compactor serves several groups of chunks; some batches meet nearly all
// nodes of some chunks, others few.
TEST_F(GpuSampling, NumbersManyNodes) {
  PlainGraph graph;
  constexpr Count kNodes = (Count{1} << 25) + 12345;
  graph.indptr.reserve(at(kNodes) + 1);
  graph.original_ids.reserve(at(kNodes));
  for (NodeId v = 0; v < kNodes; ++v) {
    graph.original_ids.push_back(kNodes - 1 - v);
    const Count degree = v % 97 == 0 ? 40 : v < 3 ? 3000000 : 0;
    for (Count j = 0; j < degree; ++j) {
      graph.indices.push_back(
          static_cast<NodeId>(mix64(static_cast<std::uint64_t>(v * 3000001 + j)) % kNodes));
      graph.edge_ids.push_back(static_cast<EdgeId>(graph.edge_ids.size()));
    }
    graph.indptr.push_back(static_cast<Count>(graph.indices.size()));
  }
  const ViewOwner on_gpu(graph, {.device = kGpu}), on_cpu(graph, {});
  ThreadPool pool(0);
  const SamplerOptions options{.fanouts = {-1, 20}, .max_seeds = 200, .sorted_inputs = true};
  const auto gpu = make_sampler(on_gpu.view(), options, {}, 1, pool);
  const auto cpu = make_sampler(on_cpu.view(), options, {}, 1, pool);
  const cuda::Stream stream(kGpu);
  const std::vector<NodeId> hubs{1, 97, 0, 2}, few{97, 194, 97 * 1000, 5};
  for (const auto& seeds : {hubs, few, hubs}) {
    test::expect_equal(test::plain_blocks(gpu->sample(seeds, {.seed = 5}, 0, stream), stream),
                       test::plain_blocks(cpu->sample(seeds, {.seed = 5}, 0, {}), {}));
  }
}

TEST_F(GpuSampling, LeavesInputsUncompacted) {
  const PlainGraph graph = test::random_graph({.num_nodes = 5000, .seed = 8});
  const ViewOwner owner(graph, {.device = kGpu});
  ThreadPool pool(1);
  const cuda::Stream stream(kGpu);
  const auto seeds = test::random_nodes(100, 0, graph.num_nodes(), 4);
  SamplerOptions options{.fanouts = {6, 4}, .max_seeds = 100, .strided = true};
  const auto whole = make_sampler(owner.view(), options, {}, 1, pool);
  options.compact_inputs = false;
  const auto raw = make_sampler(owner.view(), options, {}, 1, pool);
  for (std::uint32_t step = 0; step < 3; ++step) {
    const auto expected = test::plain_blocks(whole->sample(seeds, {.step = step}, 0, stream), stream);
    const MiniBatch batch = raw->sample(seeds, {.step = step}, 0, stream);
    const auto actual = test::plain_blocks(batch, stream);
    EXPECT_TRUE(batch.blocks.front().global_indices);
    EXPECT_EQ(batch.num_inputs(), expected[1].src_nodes.size());
    EXPECT_EQ(actual[1].src_nodes, expected[1].src_nodes);
    EXPECT_EQ(actual[0].indptr, expected[0].indptr);
    ASSERT_EQ(actual[0].indices.size(), expected[0].indices.size());
    for (std::size_t e = 0; e < actual[0].indices.size(); ++e) {
      const auto local = at(expected[0].indices[e]);
      ASSERT_EQ(actual[0].indices[e], expected[0].src_nodes[local]);
    }
  }
}

TEST_F(GpuSampling, LeavesSomeOriginalIdsUnset) {
  const PlainGraph graph = test::renumbered(test::random_graph({.num_nodes = 5000, .seed = 8}), 2);
  const ViewOwner owner(graph, {.device = kGpu});
  ThreadPool pool(1);
  const cuda::Stream stream(kGpu);
  const auto seeds = test::random_nodes(100, 0, graph.num_nodes(), 4);
  const auto sampler = make_sampler(
      owner.view(), {.fanouts = {6, 4}, .max_seeds = 100, .input_original_ids = false}, {}, 1, pool);
  const MiniBatch batch = sampler->sample(seeds, {}, 0, stream);
  const auto blocks = test::plain_blocks(batch, stream);
  for (std::size_t i = 0; i < blocks[1].src_nodes.size(); ++i) {
    const NodeId original = graph.original_ids[at(blocks[1].src_nodes[i])];
    ASSERT_EQ(blocks[1].src_original_ids[i], original);
  }
}

// The first batch is enqueued call by call, the second recorded, the others are replays.
TEST_F(GpuSampling, PadsSortedInputs) {
  const PlainGraph graph = test::random_graph({.num_nodes = 40000, .seed = 8});
  for (const bool wide : {false, true}) {
    const ViewOwner owner(graph, {.wide = wide, .device = kGpu});
    ThreadPool pool(1);
    const cuda::Stream stream(kGpu);
    const SamplerOptions options{.fanouts = {6, 4}, .max_seeds = 100, .strided = true, .sorted_inputs = true};
    const auto sampler = make_sampler(owner.view(), options, {}, 1, pool);
    const PaddedShape shape = sampler->bounds();
    sampler->pad_nodes(shape);
    for (std::uint32_t step = 0; step < 5; ++step) {
      const auto seeds = test::random_nodes(step == 2 ? 0 : 100 - 20 * step, 0, graph.num_nodes(), step);
      MiniBatch batch = sampler->sample(seeds, {.step = step}, 0, stream);
      auto expected = test::reference_blocks(graph, seeds, options, {.step = step}).front();
      test::expect_equal(std::vector{test::plain_blocks(batch, stream).front()}, std::vector{expected});
      ASSERT_TRUE(pad(batch, shape));
      const auto on_host = [&]<typename T>(const T* values) {
        std::vector<T> copy(at(shape.nodes.back()));
        cuda::copy_async(copy.data(), values, copy.size() * sizeof(T), stream);
        stream.synchronize();
        return copy;
      };
      for (Count i = std::ssize(expected.sorted_inputs); i < shape.nodes.back(); ++i) {
        expected.sorted_inputs.push_back(-1);
        expected.sorted_positions.push_back(static_cast<std::int32_t>(i));
      }
      EXPECT_EQ(on_host(batch.sorted_inputs), expected.sorted_inputs);
      EXPECT_EQ(on_host(batch.sorted_positions), expected.sorted_positions);
    }
  }
}

TEST_F(GpuSampling, TakesSeedsFromTheGpu) {
  const PlainGraph graph = test::random_graph({});
  const ViewOwner owner(graph, {.device = kGpu});
  ThreadPool pool(1);
  const cuda::Stream stream(kGpu);
  const SamplerOptions options{.fanouts = {4, 3}, .max_seeds = 100};
  const auto sampler = make_sampler(owner.view(), options, {}, 2, pool);
  std::vector<cuda::Array<NodeId>> arrays;
  for (std::uint32_t step = 0; step < 5; ++step) {
    const auto seeds = test::random_nodes(100 - step, 0, graph.num_nodes(), step);
    arrays.emplace_back(cuda::Memory::device, std::ssize(seeds), "seeds", kGpu);
    cuda::copy_async(arrays.back().data(), seeds.data(), seeds.size() * sizeof(NodeId), stream);
    const BatchKey key{.step = step};
    test::expect_equal(
        test::plain_blocks(sampler->sample(arrays.back().span(), key, static_cast<int>(step % 2), stream),
                           stream),
        test::reference_blocks(graph, seeds, options, key));
  }
}

TEST_F(GpuSampling, RefusesMoreSeedsThanItWasMadeFor) {
  const PlainGraph graph = test::random_graph({});
  const ViewOwner owner(graph, {.device = kGpu});
  ThreadPool pool(1);
  const auto sampler = make_sampler(owner.view(), {.fanouts = {2}, .max_seeds = 3}, {}, 1, pool);
  EXPECT_THROW(sampler->sample(test::random_nodes(4, 0, graph.num_nodes(), 1), {}, 0, cuda::Stream(kGpu)),
               Error);
}

TEST_F(GpuSampling, SamplesAnEmptyGraph) {
  const ViewOwner owner(PlainGraph{}, {.device = kGpu});
  ThreadPool pool(1);
  const cuda::Stream stream(kGpu);
  const auto sampler = make_sampler(owner.view(), {.fanouts = {3, -1}, .transpose = true}, {}, 1, pool);
  EXPECT_EQ(sampler->sample({}, {}, 0, stream).num_inputs(), 0);
}

}  // namespace
}  // namespace strata::sampling
