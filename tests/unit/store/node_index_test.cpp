// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "strata/store/halo.hpp"

namespace strata::store {
namespace {

TEST(NodeIndex, FindsThePositionsOfItsNodesAndNoOthers) {
  std::mt19937_64 random(7);
  for (const NodeId num_nodes : {NodeId{1}, NodeId{63}, NodeId{5000}, NodeId{1} << 40}) {
    for (const std::size_t count : {1, 40, 3000}) {
      std::set<NodeId> distinct;
      while (distinct.size() < std::min(count, static_cast<std::size_t>(num_nodes) / 2 + 1))
        distinct.insert(static_cast<NodeId>(random() % static_cast<std::uint64_t>(num_nodes)));
      distinct.insert(num_nodes - 1);
      std::vector<NodeId> nodes(distinct.begin(), distinct.end());
      std::ranges::shuffle(nodes, random);
      const NodeIndex index(nodes, num_nodes);
      ASSERT_EQ(index.size(), std::ssize(nodes));
      for (std::size_t position = 0; position < nodes.size(); ++position)
        ASSERT_EQ(index.find(nodes[position]), static_cast<Count>(position));
      for (int i = 0; i < 1000; ++i) {
        const auto node = static_cast<NodeId>(random() % static_cast<std::uint64_t>(num_nodes));
        ASSERT_EQ(index.find(node) >= 0, distinct.contains(node));
      }
    }
  }
}

TEST(DeviceNodeIndex, FindsWhatItsOriginalFinds) {
  const std::vector<NodeId> nodes{70, 64, 3};
  std::optional<NodeIndex> original(std::in_place, nodes, 100);
  const DeviceNodeIndex copy(&*original, {});
  original.reset();
  for (NodeId node = 0; node < 100; ++node) {
    const auto at = std::ranges::find(nodes, node);
    EXPECT_EQ(copy.view().find(node), at == nodes.end() ? -1 : at - nodes.begin());
  }
  EXPECT_EQ(DeviceNodeIndex(nullptr, {}).view().find(3), -1);
}

TEST(NodeIndex, MayBeEmpty) {
  EXPECT_EQ(NodeIndex().find(5), -1);
  EXPECT_EQ(NodeIndex({}, 10).find(5), -1);
}

}  // namespace
}  // namespace strata::store
