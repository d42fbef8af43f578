// SPDX-License-Identifier: Apache-2.0
#include "evaluation/node_set.hpp"

#include <gtest/gtest.h>

#include <random>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/mpi_world.hpp"

namespace strata::train {
namespace {

TEST(GpuRankLookup, FindsTheRanksOfTheCpu) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  constexpr Count kNodes = 100'000, kIds = 70'001;
  const Device gpu{.kind = Device::Kind::cuda, .index = 0};
  std::mt19937_64 random(3);
  NodeSet set(kNodes);
  for (int i = 0; i < 30'000; ++i) set.insert(static_cast<NodeId>(random() % kNodes));
  set.unite(test::world().communicator());

  cuda::Array<NodeId> ids(cuda::Memory::pinned, kIds, "ids"), ranks(cuda::Memory::pinned, kIds, "ranks");
  for (NodeId& id : ids.span())
    id = set.node_of(static_cast<Count>(random() % static_cast<std::uint64_t>(set.size())));
  for (NodeId& rank : ranks.span()) rank = -1;
  const cuda::Stream stream(gpu);
  ThreadPool pool(1);
  const RankLookup lookup(set, gpu);
  lookup.find(ids.data(), kIds, ranks.data(), stream, pool);
  stream.synchronize();
  for (Count i = 0; i < kIds; ++i) ASSERT_EQ(ranks[i], set.rank(ids[i]));
}

}  // namespace
}  // namespace strata::train
