// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compaction/compactor_cpu.hpp"
#include "strata/util/random.hpp"

namespace strata::sampling {
namespace {

template <typename Id>
class CompactorTest : public testing::Test {};
using IdTypes = testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(CompactorTest, IdTypes);

template <typename Id>
std::vector<Id> random_ids(Count count, Count below, std::uint64_t seed) {
  std::vector<Id> ids;
  for (Count i = 0; i < count; ++i)
    ids.push_back(static_cast<Id>(mix64(seed * 1000003 + static_cast<std::uint64_t>(i)) %
                                  static_cast<std::uint64_t>(below)));
  return ids;
}

TYPED_TEST(CompactorTest, NumbersNewNodesInAscendingOrderAgainAndAgain) {
  constexpr Count kNodes = 300001;
  ThreadPool pool(3);
  Compactor<TypeParam> compactor(kNodes, pool);
  for (std::uint64_t round = 0; round < 6; ++round) {
    std::vector<NodeId> nodes{5, static_cast<NodeId>(kNodes - 1 - static_cast<Count>(round)), 70000};
    compactor.start(nodes);
    Count known = 3;
    for (std::uint64_t hop = 0; hop < 3; ++hop) {
      const auto neighbors = random_ids<TypeParam>(Count{50} << (5 * hop), kNodes, round * 10 + hop);
      std::set<NodeId> fresh(neighbors.begin(), neighbors.end());
      for (const NodeId node : nodes) fresh.erase(node);
      std::vector<NodeId> expected = nodes;
      expected.insert(expected.end(), fresh.begin(), fresh.end());

      nodes.resize(nodes.size() + neighbors.size(), -7);
      known = compactor.extend(neighbors.data(), static_cast<Count>(neighbors.size()), nodes.data(), known);
      nodes.resize(at(known));
      ASSERT_EQ(nodes, expected) << "round " << round << ", hop " << hop;

      std::vector<std::int32_t> local(neighbors.size(), -7);
      compactor.relabel(neighbors.data(), static_cast<Count>(neighbors.size()), local.data());
      for (std::size_t e = 0; e < local.size(); ++e) ASSERT_EQ(nodes[at(local[e])], neighbors[e]);
    }
    std::vector<NodeId> ascending = nodes, sorted(nodes.size(), -7);
    std::ranges::sort(ascending);
    std::vector<std::int32_t> local(nodes.size(), -7);
    compactor.sort(sorted.data(), local.data());
    ASSERT_EQ(sorted, ascending);
    for (std::size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(nodes[at(local[i])], sorted[i]);
  }
}

TYPED_TEST(CompactorTest, TakesEmptyInput) {
  ThreadPool pool(1);
  Compactor<TypeParam> empty(0, pool);
  empty.start({});
  EXPECT_EQ(empty.extend(nullptr, 0, nullptr, 0), 0);
  empty.sort(nullptr, nullptr);
}

}  // namespace
}  // namespace strata::sampling
