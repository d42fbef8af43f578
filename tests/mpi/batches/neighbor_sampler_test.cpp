// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "loader_setup.hpp"
#include "strata/batches/node_loader.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::batches {
namespace {

using test::LoaderSetup;

template <typename T>
std::vector<T> values(const T* data, Count size) {
  return std::vector<T>(data, data + size);
}

void expect_same_edges(const sampling::Block& block, const sampling::Block& expected) {
  EXPECT_EQ(block.num_src, expected.num_src);
  EXPECT_EQ(values(block.indptr, block.num_dst + 1), values(expected.indptr, expected.num_dst + 1));
  EXPECT_EQ(values(block.indices, block.num_edges), values(expected.indices, expected.num_edges));
  EXPECT_EQ(values(block.edge_ids, block.num_edges), values(expected.edge_ids, expected.num_edges));
}

class StepwiseSampling : public testing::TestWithParam<sampling::Method> {
 protected:
  LoaderSetup setup_{0};
};

TEST_P(StepwiseSampling, DrawsHopByHopWhatALoaderDraws) {
  const sampling::SamplerOptions both{.fanouts = {4, 3}, .method = GetParam()};
  NodeLoader loader(setup_.graph, {.batch_size = 20, .shuffle = true, .seed = 9, .sampler = both});
  NeighborSampler first(setup_.graph, {.fanouts = {4}, .method = GetParam()}),
      second(setup_.graph, {.fanouts = {3}, .method = GetParam()});
  loader.begin(2);
  while (const auto batch = loader.next({})) {
    const auto seeds = first.sample({batch->nodes(), at(batch->num_seeds())}, batch->key, 0, {});
    expect_same_edges(seeds->sample.blocks[0], batch->sample.blocks[1]);
    const auto next = second.sample({seeds->nodes(), at(seeds->num_nodes())}, batch->key, 1, {});
    expect_same_edges(next->sample.blocks[0], batch->sample.blocks[0]);
    EXPECT_EQ(values(next->nodes(), next->num_nodes()), values(batch->nodes(), batch->num_nodes()));
    EXPECT_EQ(values(next->original_ids(), next->num_nodes()),
              values(batch->original_ids(), batch->num_nodes()));
  }
  loader.close();
}

INSTANTIATE_TEST_SUITE_P(Methods, StepwiseSampling,
                         testing::Values(sampling::Method::uniform, sampling::Method::labor));

TEST(NeighborSampler, TakesAnyNumberOfNodesOnOneRankOnly) {
  LoaderSetup setup(0);
  if (test::world().rank() == 0) {
    NeighborSampler sampler(setup.graph, {.fanouts = {-1}});
    std::vector<NodeId> all(900);
    std::iota(all.begin(), all.end(), 0);
    const auto batch = sampler.sample(all, {}, 0, {});
    EXPECT_EQ(batch->sample.blocks[0].num_edges, setup.dataset->structure.num_edges());
    EXPECT_EQ(batch->num_nodes(), 900);
    EXPECT_EQ(sampler.sample({}, {}, 0, {})->num_nodes(), 0);
    EXPECT_EQ(batch->num_nodes(), 900) << "an earlier batch stays";
  }
}

TEST(NeighborSampler, DrawsInAnyThreadWhatItDrawsInOne) {
  LoaderSetup setup(0);
  NeighborSampler sampler(setup.graph, {.fanouts = {3}});
  const auto sample = [&](int thread, Count step) {
    std::vector<NodeId> nodes;  // of the second thread more
    for (NodeId node = thread; node < 100 + 500 * thread; node += 2) nodes.push_back(node);
    return sampler.sample(nodes, {.seed = 7, .epoch = 1, .step = static_cast<std::uint32_t>(step)}, 0, {});
  };
  constexpr Count kSteps = 200;
  std::vector<std::vector<std::shared_ptr<const NodeBatch>>> batches(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (Count step = 0; step < kSteps; ++step) batches[at(t)].push_back(sample(t, step));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 2; ++t) {
    for (Count step = 0; step < kSteps; ++step) {
      const auto& of_thread = batches[at(t)][at(step)];
      expect_same_edges(of_thread->sample.blocks[0], sample(t, step)->sample.blocks[0]);
    }
  }
}

TEST(NeighborSampler, RefusesWhatIsNoNodeOrGivenTwice) {
  LoaderSetup setup(0);
  NeighborSampler sampler(setup.graph, {.fanouts = {2}});
  const std::vector<NodeId> wrong{3, 900}, twice{3, 4, 3};
  test::expect_error<InputError>([&] { sampler.sample(wrong, {}, 0, {}); }, {"900"});
  test::expect_error<InputError>([&] { sampler.sample(twice, {}, 0, {}); }, {"3", "more than once"});
  test::expect_error<InputError>([&] { NeighborSampler(setup.graph, {.fanouts = {-2}}); }, {"below -1"});
  setup.graph->close();
  test::expect_error<Error>([&] { sampler.sample({}, {}, 0, {}); }, {"was closed"});
}

TEST(NeighborSampler, NeedsTheWholeStructureOnTheMachine) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two ranks";
  LoaderSetup setup(1);
  const auto graph = Graph::load(setup.runtime, graph::Source(setup.directory.string()),
                                 {.replication = plan::Replication::off});
  test::expect_error<InputError>([&] { NeighborSampler(graph, {.fanouts = {2}}); }, {"replicate=\"on\""});
  graph->close();
  NeighborSampler of_replicated(setup.graph, {.fanouts = {-1}});
  const std::vector<NodeId> ends{0, 899};
  const Count degree = of_replicated.sample(ends, {}, 0, {})->sample.blocks[0].num_edges;
  Count expected = 0;
  const std::vector<Count>& indptr = setup.dataset->structure.indptr;
  for (const NodeId end : ends) {
    const auto original = at(setup.graph->stored().host_view().original_ids[end]);
    expected += indptr[original + 1] - indptr[original];
  }
  EXPECT_EQ(degree, expected);
}

}  // namespace
}  // namespace strata::batches
