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

store::GraphView view_of(const std::vector<Count>& indptr) {
  store::GraphView view;
  view.num_nodes = view.num_local = std::ssize(indptr) - 1;
  view.indptr = indptr.data();
  return view;
}

TEST(NodeChunks, CoverTheNodesWithinTheLimitsAndAreFew) {
  constexpr int kParts = 3;
  const std::vector<Count> indptr = random_indptr(1000, 3);
  const store::GraphView view = view_of(indptr);
  const LayerNodes nodes(view, nullptr, {});
  const ChunkCost cost{.node_bytes = 30, .edge_bytes = 7};
  const auto bytes = [&](Count first, Count last) {
    return cost.of(last - first,
                   indptr[static_cast<std::size_t>(last)] - indptr[static_cast<std::size_t>(first)]);
  };
  for (const ChunkLimits limits : {ChunkLimits{1000, 2000}, ChunkLimits{5, 2000}, ChunkLimits{1000, 1}}) {
    Count next = 0;
    for (int part = 0; part < kParts; ++part) {
      for (const NodeChunk& chunk : nodes.cut(part, kParts, cost, limits)) {
        ASSERT_EQ(chunk.first, next);
        ASSERT_EQ(chunk.first_row, next);
        ASSERT_GE(chunk.count, 1);
        EXPECT_LE(chunk.count, limits.nodes);
        next += chunk.count;
        EXPECT_TRUE(chunk.count == 1 || bytes(chunk.first, next) <= limits.bytes);
        const bool one_more_fits = next < 1000 * (part + 1) / kParts && chunk.count < limits.nodes &&
                                   bytes(chunk.first, next + 1) <= limits.bytes;
        EXPECT_FALSE(one_more_fits);
      }
    }
    EXPECT_EQ(next, 1000);
  }
}

TEST(NodeChunks, OfNoNodesAreNone) {
  const std::vector<Count> indptr{0};
  const store::GraphView view = view_of(indptr);
  EXPECT_TRUE(LayerNodes(view, nullptr, {}).cut(0, 1, {1, 1}, {10, 10}).empty());
}

}  // namespace
}  // namespace strata::train
