// SPDX-License-Identifier: Apache-2.0
#include "load/checked_ids.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace strata::store {
namespace {

template <typename To>
class CopyChecked : public testing::Test {};
using Widths = testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(CopyChecked, Widths);

constexpr NodeId kEnd = 1'000'003;

std::vector<NodeId> random_ids(std::size_t size) {
  std::mt19937_64 random(size);
  std::vector<NodeId> ids(size);
  for (NodeId& id : ids) id = static_cast<NodeId>(random() % static_cast<std::uint64_t>(kEnd));
  return ids;
}

TYPED_TEST(CopyChecked, CopiesEveryId) {
  for (const std::size_t size : {0, 1, 7, 8192, 8193}) {
    const std::vector<NodeId> ids = random_ids(size);
    std::vector<TypeParam> out(size, TypeParam{-77});
    EXPECT_EQ(copy_checked(std::span(ids), kEnd, out.data()), static_cast<Count>(size));
    EXPECT_THAT(out, testing::ElementsAreArray(ids));
  }
}

TYPED_TEST(CopyChecked, FindsTheFirstIdOutside) {
  for (const NodeId bad : {NodeId{-1}, kEnd, (NodeId{1} << 32) + 5, std::numeric_limits<NodeId>::min(),
                           std::numeric_limits<NodeId>::max()}) {
    for (const std::size_t position : {0, 1, 500, 999}) {
      std::vector<NodeId> ids = random_ids(1000);
      ids[position] = ids[999] = bad;
      std::vector<TypeParam> out(ids.size());
      EXPECT_EQ(copy_checked(std::span(ids), kEnd, out.data()), static_cast<Count>(position)) << bad;
    }
  }
}

TYPED_TEST(CopyChecked, TakesTheLargestEnd) {
  constexpr NodeId kLargest = std::numeric_limits<TypeParam>::max();
  std::vector<NodeId> ids{0, kLargest - 1};
  std::vector<TypeParam> out(2);
  EXPECT_EQ(copy_checked(std::span(ids), kLargest, out.data()), 2);
  EXPECT_EQ(out[1], kLargest - 1);
  ids[1] = kLargest;
  EXPECT_EQ(copy_checked(std::span(ids), kLargest, out.data()), 1);
}

}  // namespace
}  // namespace strata::store
