// SPDX-License-Identifier: Apache-2.0
#include "evaluation/node_chunks.hpp"

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

TEST(NodeChunks, SplitLongListsWithinTheBytes) {
  const std::vector<Count> indptr = random_indptr(1000, 5);
  const store::GraphView view = view_of(indptr);
  const ChunkCost cost{.node_bytes = 30, .edge_bytes = 7};
  for (const Count bytes : {Count{1}, Count{500}, Count{1500}}) {
    Count next = 0, read = 0;  // nodes, and entries of the list that is read in pieces
    for (const NodeChunk& chunk :
         LayerNodes(view, nullptr, {}).cut(0, 1, cost, {.nodes = 50, .bytes = bytes, .splits_lists = true})) {
      const auto at = static_cast<std::size_t>(chunk.first);
      const Count edges = indptr[at + static_cast<std::size_t>(chunk.count)] - indptr[at];
      ASSERT_EQ(chunk.first, next);
      if (!chunk.piece) {
        EXPECT_TRUE(cost.of(chunk.count, edges) <= bytes || edges <= ChunkLimits::kLeastPiece);
        next += chunk.count;
        continue;
      }
      ASSERT_EQ(chunk.count, 1);
      ASSERT_EQ(chunk.first_row, next);
      EXPECT_EQ(chunk.piece->begin, read);
      EXPECT_EQ(chunk.piece->last, chunk.piece->end == edges);
      const Count entries = chunk.piece->end - chunk.piece->begin;
      EXPECT_GT(entries, 0);
      EXPECT_TRUE(cost.of(1, entries) <= bytes || entries <= ChunkLimits::kLeastPiece);
      EXPECT_GT(cost.of(1, edges), bytes);
      read = chunk.piece->last ? 0 : chunk.piece->end;
      next += chunk.piece->last ? 1 : 0;
    }
    EXPECT_EQ(next, 1000);
    EXPECT_EQ(read, 0);
  }
}

TEST(NodeChunks, OfNoNodesAreNone) {
  const std::vector<Count> indptr{0};
  const store::GraphView view = view_of(indptr);
  EXPECT_TRUE(LayerNodes(view, nullptr, {}).cut(0, 1, {1, 1}, {10, 10}).empty());
}

}  // namespace
}  // namespace strata::train
