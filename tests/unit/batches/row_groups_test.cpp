// SPDX-License-Identifier: Apache-2.0
#include "learned/row_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "support/row_lists.hpp"

namespace strata::batches {
namespace {

using testing::ElementsAre;

class RowGrouperTest : public testing::Test {
 protected:
  ThreadPool pool_{2};
  std::unique_ptr<RowGrouper> grouper_ = make_row_grouper({}, pool_);
  cuda::Stream stream_;
};

TEST_F(RowGrouperTest, PutsEqualRowsTogetherInTheirOrder) {
  const std::vector<NodeId> list{7, 3, -1, 7, 9, 3, 7};
  const RowGroups groups = grouper_->group(list.data(), std::ssize(list), 9, stream_);
  EXPECT_THAT(std::vector(groups.rows, groups.rows + groups.count), ElementsAre(3, 3, 7, 7, 7, 9, 9));
  EXPECT_THAT(std::vector(groups.order, groups.order + groups.count), ElementsAre(1, 5, 0, 3, 6, 2, 4));
  EXPECT_EQ(groups.begin_of(4), 2);
  EXPECT_EQ(groups.end_of(2), 5);
  EXPECT_TRUE(groups.begins_at(2));
  EXPECT_FALSE(groups.begins_at(5)) << "what is no row has no group";
}

TEST_F(RowGrouperTest, AddsWhatEachRowHas) {
  for (const Count hot : {0, 31, 32, 33, 1023, 1024, 5000, 40000}) {
    SCOPED_TRACE(hot);
    const test::RowList list = test::row_list({.rows = 60, .count = 200, .hot = hot, .cols = 3});
    const auto groups = grouper_->group(list.rows.data(), list.count(), 60, stream_);
    const GradientSums sums = grouper_->sum(groups, list.gradients.data(), 3, stream_);
    const std::vector<NodeId> bounds{0, 20, 20, 60};
    const ListedRows listed = grouper_->list_sums(sums, bounds, stream_);
    std::map<NodeId, std::array<double, 3>> wanted;
    for (Count i = 0; i < list.count(); ++i)
      for (Count col = 0; col < 3; ++col)
        if (list.rows[at(i)] >= 0) wanted[list.rows[at(i)]][at(col)] += list.gradients[at(3 * i + col)];
    ASSERT_EQ(listed.count(), std::ssize(wanted));
    EXPECT_EQ(listed.offsets[0], 0);
    EXPECT_EQ(listed.offsets[1], listed.offsets[2]);
    EXPECT_EQ(listed.rows[listed.offsets[1]], wanted.lower_bound(20)->first);
    const NodeId* rows = listed.rows;
    const auto* values = reinterpret_cast<const float*>(listed.values);
    for (const auto& [row, sum] : wanted) {
      EXPECT_EQ(*rows++, row);
      for (const double value : sum) EXPECT_NEAR(*values++, value, 1e-5 * static_cast<double>(200 + hot));
    }
  }
}

TEST_F(RowGrouperTest, ListsTheLastValueOfEachRow) {
  const std::vector<NodeId> list{2, 0, 2, -1, 2};
  const std::vector<std::int16_t> values{1, 2, 3, 4, 5};
  const ListedRows listed = grouper_->list_last(grouper_->group(list.data(), 5, 3, stream_),
                                                reinterpret_cast<const std::byte*>(values.data()), 2,
                                                std::vector<NodeId>{0, 3}, stream_);
  EXPECT_THAT(std::vector(listed.rows, listed.rows + listed.count()), ElementsAre(0, 2));
  const auto* last = reinterpret_cast<const std::int16_t*>(listed.values);
  EXPECT_THAT(std::vector(last, last + 2), ElementsAre(2, 5));
}

TEST(DealtRows, GivesEveryIdARowOfItsMachine) {
  const std::vector<DealtRows::OfMachine> machines{{0, 200, 0, 2, 128}, {200, 201, 256, 1, 1}};
  const DealtRows dealt{machines.data(), 2};
  EXPECT_EQ(dealt.row_of(63), 63);
  EXPECT_EQ(dealt.row_of(64), 128);
  EXPECT_EQ(dealt.row_of(130), 66);
  EXPECT_EQ(dealt.row_of(199), 128 + 64 + 7);
  EXPECT_EQ(dealt.row_of(200), 256);
  EXPECT_EQ(dealt.row_of(201), -1);
  EXPECT_EQ(dealt.row_of(-1), -1);
}

}  // namespace
}  // namespace strata::batches
