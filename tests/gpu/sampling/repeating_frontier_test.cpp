// SPDX-License-Identifier: Apache-2.0
#include "support/repeating_frontier.hpp"

#include <gtest/gtest.h>

#include "choosers/pick_chooser_cuda.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/expect_error.hpp"
#include "support/methods.hpp"
#include "support/reference_sampler.hpp"

namespace strata::sampling {
namespace {

using test::ChosenList;
using test::MethodCase;
using test::PlainGraph;
using test::ViewOwner;

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};
constexpr auto kDevice = cuda::Memory::device;

template <typename T>
cuda::Array<T> poisoned(Count size, const cuda::Stream& stream) {
  cuda::Array<T> array(kDevice, size + 1, "poisoned", kGpu);
  cuda::fill_async(array.data(), 0xA5, array.span().size_bytes(), stream);
  return array;
}
template <typename T>
void upload(cuda::Array<T>& to, std::span<const T> from, const cuda::Stream& stream) {
  cuda::copy_async(to.data(), from.data(), from.size_bytes(), stream);
  stream.synchronize();
}
template <typename T>
std::vector<T> to_host(const cuda::Array<T>& array, Count size, const cuda::Stream& stream) {
  std::vector<T> values(at(size));
  cuda::copy_async(values.data(), array.data(), values.size() * sizeof(T), stream);
  stream.synchronize();
  return values;
}

/// A query on the device; an owner. Its bound is above the number of nodes.
struct UploadedQuery {
  UploadedQuery(const PickQuery& query, const cuda::Stream& stream)
      : size(std::ssize(query.nodes)),
        nodes(poisoned<NodeId>(size + kSpare, stream)),
        count(poisoned<Count>(1, stream)),
        key(poisoned<BatchKey>(1, stream)),
        view{{nodes.data(), count.data(), size + kSpare}, query.fanout, key.data(), query.hop} {
    upload(nodes, query.nodes, stream);
    upload<Count>(count, {&size, 1}, stream);
    upload<BatchKey>(key, {&query.key, 1}, stream);
  }

  static constexpr Count kSpare = 77;
  Count size;
  cuda::Array<NodeId> nodes;
  cuda::Array<Count> count;
  cuda::Array<BatchKey> key;
  DeviceQuery view;
};

template <typename Id>
std::vector<ChosenList> packed_lists(DevicePickChooser<Id>& chooser, const UploadedQuery& query,
                                     const cuda::Stream& stream) {
  const Count bound = query.view.frontier.bound;
  auto plan = poisoned<DeviceRange>(bound, stream);
  auto offsets = poisoned<Count>(bound + 1, stream);
  chooser.measure(query.view, plan.data(), offsets.data(), stream);
  std::vector<Count> ends = to_host(offsets, bound + 1, stream);
  Count sum = 0;
  for (Count& end : ends) sum += std::exchange(end, sum);
  upload<Count>(offsets, ends, stream);
  auto neighbors = poisoned<Id>(sum, stream);
  auto edge_ids = poisoned<EdgeId>(sum, stream);
  chooser.choose(query.view, plan.data(),
                 {.neighbors = neighbors.data(),
                  .edge_ids = edge_ids.data(),
                  .edge_bound = sum,
                  .offsets = offsets.data()},
                 stream);
  const std::vector<Id> nodes = to_host(neighbors, sum, stream);
  const std::vector<EdgeId> edges = to_host(edge_ids, sum, stream);
  std::vector<ChosenList> lists;
  for (std::size_t i = 0; i < at(query.size); ++i)
    lists.push_back({{nodes.begin() + ends[i], nodes.begin() + ends[i + 1]},
                     {edges.begin() + ends[i], edges.begin() + ends[i + 1]}});
  return lists;
}

template <typename Id>
std::vector<ChosenList> strided_lists(DevicePickChooser<Id>& chooser, const UploadedQuery& query,
                                      const cuda::Stream& stream) {
  const Count bound = query.view.frontier.bound, fanout = query.view.fanout, room = bound * fanout;
  auto counts = poisoned<std::int32_t>(bound, stream);
  auto num_edges = poisoned<Count>(1, stream);
  cuda::fill_async(num_edges.data(), 0, sizeof(Count), stream);
  auto neighbors = poisoned<Id>(room, stream);
  auto edge_ids = poisoned<EdgeId>(room, stream);
  chooser.choose(query.view, nullptr,
                 {.neighbors = neighbors.data(),
                  .edge_ids = edge_ids.data(),
                  .edge_bound = room,
                  .counts = counts.data(),
                  .num_edges = num_edges.data()},
                 stream);
  const std::vector<std::int32_t> sizes = to_host(counts, bound, stream);
  const std::vector<Id> nodes = to_host(neighbors, room, stream);
  const std::vector<EdgeId> edges = to_host(edge_ids, room, stream);
  std::vector<ChosenList> lists;
  for (Count i = 0; i < query.size; ++i) {
    const Count begin = i * fanout, end = begin + sizes[at(i)];
    lists.push_back(
        {{nodes.begin() + begin, nodes.begin() + end}, {edges.begin() + begin, edges.begin() + end}});
  }
  return lists;
}

class RepeatingFrontierOnGpu : public testing::TestWithParam<MethodCase> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }

  template <typename Id>
  void expect_lists_of_the_cpu(const PlainGraph& graph, int fanout, std::uint32_t hop) {
    const bool wide = sizeof(Id) == 8;
    const ViewOwner on_cpu(graph, {.wide = wide}), on_gpu(graph, {.wide = wide, .device = kGpu});
    const SamplerOptions options = GetParam().options({fanout}, 1000);
    const std::vector<NodeId> frontier = test::repeating_frontier(1000, graph.num_nodes(), hop + 1);
    const PickQuery query{frontier, fanout, {.seed = 3, .epoch = 1, .step = 4}, hop};
    ThreadPool pool(2);
    const auto cpu = make_pick_chooser<Id>(on_cpu.view(), options, pool);
    const auto gpu = make_device_chooser<Id>(on_gpu.view(), options);
    const std::vector<ChosenList> expected = test::chosen_lists(*cpu, query);
    const cuda::Stream stream(kGpu);
    const UploadedQuery uploaded(query, stream);
    EXPECT_TRUE(packed_lists(*gpu, uploaded, stream) == expected) << "packed";
    if (gpu->fills_strided(fanout)) {
      EXPECT_TRUE(strided_lists(*gpu, uploaded, stream) == expected) << "picks";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, RepeatingFrontierOnGpu, testing::ValuesIn(test::all_methods()),
                         testing::PrintToStringParamName());

TEST_P(RepeatingFrontierOnGpu, GivesEveryOccurrenceWhatTheCpuDoes) {
  const PlainGraph graph = test::renumbered(
      test::random_graph({.num_nodes = 3000, .mean_degree = 20, .hub_degree = 4000, .seed = 3}), 4);
  for (const int fanout : {1, 5, 32, 40, -1}) {
    for (const std::uint32_t hop : {0, 1, 2}) {
      SCOPED_TRACE("fanout " + std::to_string(fanout) + ", hop " + std::to_string(hop));
      expect_lists_of_the_cpu<std::int32_t>(graph, fanout, hop);
      expect_lists_of_the_cpu<std::int64_t>(graph, fanout, hop);
    }
  }
}

// Enqueued call by call, recorded and replayed, with seeds on either side; what follows is right again.
TEST_P(RepeatingFrontierOnGpu, IsRefusedAsSeeds) {
  const PlainGraph graph = test::random_graph({.num_nodes = 2000, .seed = 4});
  const ViewOwner owner(graph, {.device = kGpu});
  ThreadPool pool(1);
  const SamplerOptions options = GetParam().options({4, 3, 2}, 1500);
  const auto sampler = make_sampler(owner.view(), options, {}, 1, pool);
  const cuda::Stream stream(kGpu);
  const auto refuses = [&](std::span<const NodeId> seeds, const std::string& message) {
    test::expect_error([&] { sampler->sample(seeds, {}, 0, stream); }, {message});
  };
  const auto seeds = test::random_nodes(1400, 0, graph.num_nodes(), 5);
  for (const std::size_t again : {0, 700, 1399}) {
    std::vector<NodeId> repeated = seeds;
    repeated.push_back(seeds[again]);
    const std::string message = "node " + std::to_string(seeds[again]) + " is among the seeds";
    refuses(repeated, message);
    auto there = poisoned<NodeId>(std::ssize(repeated), stream);
    upload<NodeId>(there, repeated, stream);
    refuses(there.span().first(repeated.size()), message);
    test::expect_equal(test::plain_blocks(sampler->sample(seeds, {.step = 1}, 0, stream), stream),
                       test::reference_blocks(graph, seeds, options, {.step = 1}));
  }
  refuses(std::vector<NodeId>{3, 2000}, "the seed 2000 is not a node of the graph (0 to 1999)");
  refuses(std::vector<NodeId>{-1}, "the seed -1 is not a node");
}

}  // namespace
}  // namespace strata::sampling
