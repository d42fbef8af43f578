// SPDX-License-Identifier: Apache-2.0
#include "support/methods.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"
#include "support/excluded_entries.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::MethodCase;
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

class GpuMethods : public testing::TestWithParam<MethodCase> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    poison_device_memory();
  }

  /// Batches of several sizes, of which most replay what earlier ones recorded, against the CPU's.
  static void expect_equal_to_cpu(const PlainGraph& graph, const SamplerOptions& options, bool wide,
                                  const std::vector<std::vector<NodeId>>& batches) {
    expect_equal_to_cpu(graph, options, {.wide = wide, .device = kGpu}, batches);
  }
  static void expect_equal_to_cpu(const PlainGraph& graph, const SamplerOptions& options,
                                  const test::ViewOptions& view,
                                  const std::vector<std::vector<NodeId>>& batches,
                                  const std::vector<Count>& excluded = {}) {
    const ViewOwner on_gpu(graph, view), on_cpu(graph, {.wide = view.wide});
    ThreadPool pool(2);
    const auto gpu = make_sampler(on_gpu.view(), options, {}, 2, pool);
    const auto cpu = make_sampler(on_cpu.view(), options, {}, 1, pool);
    const cuda::Stream stream(kGpu);
    std::uint32_t step = 0;
    for (const auto& seeds : batches) {
      SCOPED_TRACE("step " + std::to_string(step) + ", " + std::to_string(seeds.size()) + " seeds");
      const BatchKey key{.seed = 11, .epoch = 2, .step = step};
      if (!excluded.empty() && step != 4) {  // as many as differ from batch to batch
        const std::span entries(excluded.data(), excluded.size() / (step % 3 + 1));
        gpu->exclude({.lists = entries});
        cpu->exclude({.lists = entries});
      }
      const MiniBatch batch = gpu->sample(seeds, key, static_cast<int>(step % 2), stream);
      test::expect_equal(test::plain_blocks(batch, stream),
                         test::plain_blocks(cpu->sample(seeds, key, 0, {}), {}));
      ++step;
    }
  }

  static std::vector<std::vector<NodeId>> batches_of(const PlainGraph& graph) {
    std::vector<std::vector<NodeId>> batches;
    for (const Count size : {1024, 3, 0, 700, 1, 1024, 1024, 900})
      batches.push_back(test::random_nodes(size, 0, graph.num_nodes(), batches.size()));
    return batches;
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, GpuMethods, testing::ValuesIn(test::all_methods()),
                         testing::PrintToStringParamName());

TEST_P(GpuMethods, ChooseForEachRelation) {
  for (const int relations : {1, 2, 7, 400}) {
    const PlainGraph graph = test::renumbered(
        test::typed(
            test::random_graph({.num_nodes = 30000, .mean_degree = 20, .hub_degree = 30000, .seed = 3}),
            relations, 8),
        4);
    for (const auto& fanouts : {std::vector<int>{5, 3, 2}, {-1, 4}, {2, 0, 3}, {40, 2}}) {
      SCOPED_TRACE(testing::PrintToString(fanouts) + " over " + std::to_string(relations) + " relations");
      SamplerOptions options = GetParam().options(fanouts, 1024);
      expect_equal_to_cpu(graph, options, false, batches_of(graph));
      for (const int fanout : fanouts) options.relation_fanouts.emplace_back(relations, fanout);
      if (fanouts.front() > 1) options.relation_fanouts.front().front() = relations > 1 ? 1 : fanouts.front();
      expect_equal_to_cpu(graph, options, true, batches_of(graph));
    }
  }
}

TEST_P(GpuMethods, EqualTheCpu) {
  PlainGraph graph = test::renumbered(
      test::random_graph({.num_nodes = 50000, .mean_degree = 20, .hub_degree = 30000, .seed = 3}), 4);
  graph.relation = 5;
  for (const auto& fanouts :
       {std::vector<int>{5, 3, 2}, {15, 10, 5}, {1}, {-1, 4}, {3, -1}, {2, 0, 3}, {40, 2}, {100, 3}}) {
    for (const bool strided : {false, true}) {
      SCOPED_TRACE(testing::PrintToString(fanouts) + (strided ? " strided" : " packed"));
      SamplerOptions options = GetParam().options(fanouts, 1024);
      options.strided = strided;
      expect_equal_to_cpu(graph, options, false, batches_of(graph));
    }
  }
}

TEST_P(GpuMethods, LeaveOutExcludedEntries) {
  const PlainGraph plain = test::renumbered(
      test::random_graph({.num_nodes = 30000, .mean_degree = 20, .hub_degree = 100000, .seed = 3}), 4);
  const PlainGraph typed = test::typed(plain, 5, 8);
  for (const PlainGraph* graph : {&plain, &typed}) {
    const std::vector<Count> excluded = test::some_entries(*graph, 7);
    for (const auto& fanouts : {std::vector<int>{5, 3, 2}, {-1, 4}, {40, 2}, {100, 3}}) {
      for (const bool strided : {false, true}) {
        SCOPED_TRACE(testing::PrintToString(fanouts) + (strided ? " strided" : " packed"));
        SamplerOptions options = GetParam().options(fanouts, 1024);
        options.strided = strided;
        options.max_excluded = std::ssize(excluded);
        expect_equal_to_cpu(*graph, options, {.wide = !strided, .device = kGpu}, batches_of(*graph),
                            excluded);
      }
    }
  }
}

TEST_P(GpuMethods, EqualTheCpuWithWideIds) {
  const PlainGraph graph = test::renumbered(
      test::random_graph({.num_nodes = 20000, .mean_degree = 30, .hub_degree = 20000, .seed = 5}), 6);
  for (const bool bare : {false, true}) {
    SamplerOptions options = GetParam().options({8, 6}, 1024);
    if (bare) options.edge_ids = options.in_degrees = options.transpose = false;
    expect_equal_to_cpu(graph, options, true, batches_of(graph));
  }
}

struct Division {
  const char* name;
  bool pinned;
  int segments;  // of indptr
  std::optional<test::ViewOptions::Copied> copied;
};
const Division kDivisions[] = {
    {"all on the host", true, 0, {}},
    {"indptr divided", false, 3, {}},
    {"no list copied", true, 1, {{0, 0}}},
    {"some lists replicated", true, 0, {{0.4, 0}}},
    {"some lists of each", true, 40, {{0.3, 0.4}}},
    {"all lists of each", false, 0, {{0.5, 0.5}}},
    {"all lists replicated", false, 1, {{1, 0}}},
    {"all lists striped", false, 1, {{0, 1}}},
};

// The last group of the directory is filled in part.
TEST_P(GpuMethods, EqualTheCpuWhereListsAreDivided) {
  const PlainGraph graph = test::renumbered(
      test::random_graph({.num_nodes = 30003, .mean_degree = 20, .hub_degree = 200000, .seed = 7}), 8);
  for (const Division& division : kDivisions) {
    for (const auto& fanouts : {std::vector<int>{5, 3, 2}, {30, 30}, {-1, 4}, {70, 3}}) {
      for (const bool strided : {false, true}) {
        for (const bool wide : {false, true}) {
          SCOPED_TRACE(testing::PrintToString(fanouts) + (strided ? " strided, " : " packed, ") +
                       division.name + (wide ? ", wide" : ", narrow"));
          SamplerOptions options = GetParam().options(fanouts, 300);
          options.strided = strided;
          expect_equal_to_cpu(graph, options,
                              {.wide = wide,
                               .device = kGpu,
                               .pinned = division.pinned,
                               .segments = division.segments,
                               .copied = division.copied},
                              {test::random_nodes(300, 0, graph.num_nodes(), 1),
                               test::random_nodes(2, 0, graph.num_nodes(), 2),
                               {15000, 15001, 30002},
                               test::random_nodes(299, 0, graph.num_nodes(), 3)});
        }
      }
    }
  }
}

// Lists of every length around those at which kernels change their ways.
TEST_P(GpuMethods, EqualTheCpuForListsOfEveryLength) {
  PlainGraph graph;
  const std::vector<Count> lengths = {0,   1,   2,   31,  32,   33,   63,   64,   65,   127,  128,   129,
                                      255, 256, 257, 511, 512,  513,  1023, 1024, 1025, 4095, 4096,  4097,
                                      300, 700, 999, 10,  2000, 3000, 6000, 8191, 8192, 8193, 50000, 100001};
  constexpr Count kNodes = 200;
  const PlainGraph weights = test::random_graph({.num_nodes = 20000, .mean_degree = 20, .seed = 9});
  std::size_t next = 0;
  for (NodeId v = 0; v < kNodes; ++v) {
    graph.original_ids.push_back(v);
    const Count degree = v < std::ssize(lengths) ? lengths[at(v)] : v % 40;
    for (Count j = 0; j < degree; ++j) {
      graph.edge_ids.push_back(std::ssize(graph.indices));
      graph.indices.push_back(static_cast<NodeId>(mix64(static_cast<std::uint64_t>(7 * j + v)) % kNodes));
      graph.weights.push_back(weights.weights[next++ % weights.weights.size()]);
    }
    graph.indptr.push_back(std::ssize(graph.indices));
  }
  std::vector<NodeId> all(kNodes);
  std::iota(all.begin(), all.end(), 0);
  for (const int fanout : {1, 7, 32, 33, 64, 300, 5000}) {
    for (const bool strided : {false, true}) {
      SCOPED_TRACE(std::to_string(fanout) + (strided ? " strided" : " packed"));
      SamplerOptions options = GetParam().options({fanout, 3}, kNodes);
      options.strided = strided;
      expect_equal_to_cpu(graph, options, false, {all, all, all});
    }
  }
}

TEST_P(GpuMethods, EqualTheCpuForGiantHubs) {
  PlainGraph graph =
      test::random_graph({.num_nodes = 20000, .mean_degree = 2, .hub_degree = 1000000, .seed = 5});
  const std::vector<std::vector<NodeId>> batches = {{3, 10000, 4}, {10000}, {5, 6}, {10000, 10001}};
  for (const int fanout : {1, 10, 1000}) {
    for (const bool strided : {false, true}) {
      SCOPED_TRACE(std::to_string(fanout) + (strided ? " strided" : " packed"));
      SamplerOptions options = GetParam().options({fanout, 2}, 3);
      options.strided = strided;
      expect_equal_to_cpu(graph, options, false, batches);
    }
  }
}

// Equal weights and all bits of an arrival equal but its position: nothing but the position decides.
TEST_P(GpuMethods, EqualTheCpuWhereListsAreShared) {
  PlainGraph graph;  // 500 nodes that share one list of 1000: a batch's size varies as a single list's does
  for (NodeId v = 0; v < 1500; ++v) {
    graph.original_ids.push_back(v);
    for (NodeId u = 500; v < 500 && u < 1500; ++u) {
      graph.edge_ids.push_back(std::ssize(graph.indices));
      graph.indices.push_back(u);
      graph.weights.push_back(1);
    }
    graph.indptr.push_back(std::ssize(graph.indices));
  }
  std::vector<NodeId> seeds(500);
  std::iota(seeds.begin(), seeds.end(), 0);
  const std::vector<std::vector<NodeId>> batches(40, seeds);
  for (const int fanout : {1, 3, 10})
    expect_equal_to_cpu(graph, GetParam().options({fanout}, 500), false, batches);
}

TEST_P(GpuMethods, SampleAnEmptyGraph) {
  const ViewOwner owner(PlainGraph{}, {.device = kGpu});
  ThreadPool pool(1);
  const cuda::Stream stream(kGpu);
  const auto sampler = make_sampler(owner.view(), GetParam().options({3, 2}, 5), {}, 1, pool);
  EXPECT_EQ(sampler->sample({}, {}, 0, stream).num_inputs(), 0);
}

}  // namespace
}  // namespace strata::sampling
