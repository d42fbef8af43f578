#include "node_chunks.hpp"

#include <gtest/gtest.h>

#include <random>

namespace strata::train {
namespace {

std::vector<Count> random_indptr(Count nodes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Count> indptr{0};
  for (Count v = 0; v < nodes; ++v)
    indptr.push_back(indptr.back() + static_cast<Count>(random() % 50 == 0 ? 400 : random() % 9));
  return indptr;
}

TEST(NodeChunks, CoverTheNodesWithinTheLimitsAndAreFew) {
  const std::vector<Count> indptr = random_indptr(1000, 3);
  const NodeRange nodes{.first = 100, .count = 850};
  const ChunkCost cost{.node_bytes = 30, .edge_bytes = 7};
  for (const ChunkLimits limits : {ChunkLimits{1000, 2000}, ChunkLimits{5, 2000}, ChunkLimits{1000, 1}}) {
    const auto bytes = [&](Count first, Count last) {
      return cost.of(last - first,
                     indptr[static_cast<std::size_t>(last)] - indptr[static_cast<std::size_t>(first)]);
    };
    const auto chunks = cut_nodes(indptr.data(), nodes, cost, limits);
    Count next = nodes.first;
    for (const NodeRange& chunk : chunks) {
      ASSERT_EQ(chunk.first, next);
      ASSERT_GE(chunk.count, 1);
      EXPECT_LE(chunk.count, limits.nodes);
      EXPECT_TRUE(chunk.count == 1 || bytes(chunk.first, chunk.last()) <= limits.bytes);
      next = chunk.last();
      const bool one_more_fits =
          next < nodes.last() && chunk.count < limits.nodes && bytes(chunk.first, next + 1) <= limits.bytes;
      EXPECT_FALSE(one_more_fits);
    }
    EXPECT_EQ(next, nodes.last());
  }
}

TEST(NodeChunks, OfNoNodesAreNone) {
  const std::vector<Count> indptr = random_indptr(10, 1);
  EXPECT_TRUE(cut_nodes(indptr.data(), {.first = 4, .count = 0}, {1, 1}, {10, 10}).empty());
}

}  // namespace
}  // namespace strata::train
