// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/halo_plan.hpp"

#include <gtest/gtest.h>

namespace strata::plan {
namespace {

constexpr WireBytes kWire{.row = 1, .list = 1};

/// 1,000 rows of 100 bytes, of which a batch reads 500, and 1,000 lists of 50 bytes, of which it visits 200;
/// the hotter half has four fifths of either.
HaloOffer offer(const WireBytes& wire) {
  return {.row_groups = {{500, 50'000, 400 * wire.row}, {500, 50'000, 100 * wire.row}},
          .list_groups = {{500, 25'000, 160 * wire.list}, {500, 25'000, 40 * wire.list}}};
}

constexpr HaloBudget kRoomForAll{.bytes = 1 << 20, .row_bytes = 100};

// 400 rows in 50,000 bytes save 8 bytes on the link per kB at 1 byte each, and 160 lists in 25,000 save 6.4.
TEST(FillBudget, KeepsWhatSavesMostPerByte) {
  HaloBudget budget = kRoomForAll;
  budget.bytes = 50'000;
  const HaloAmounts rows = fill_budget(offer(kWire), budget, kWire);
  EXPECT_EQ(rows.rows.count, 500);
  EXPECT_EQ(rows.lists.count, 0);
  budget.bytes = 80'000;
  const HaloAmounts both = fill_budget(offer(kWire), budget, kWire);
  EXPECT_EQ(both.rows.count, 550);
  EXPECT_EQ(both.lists.count, 500);
  EXPECT_DOUBLE_EQ(both.lists.answered, 160);
  EXPECT_DOUBLE_EQ(both.rows.answered, 410);
  const WireBytes long_lists{.row = 1, .list = 2};
  budget.bytes = 25'000;
  const HaloAmounts lists = fill_budget(offer(long_lists), budget, long_lists);
  EXPECT_EQ(lists.rows.count, 0);
  EXPECT_EQ(lists.lists.count, 500);
}

TEST(FillBudget, LeavesOutWhatTheBudgetHasNoPlaceFor) {
  HaloBudget budget = kRoomForAll;
  budget.lists = false;
  EXPECT_EQ(fill_budget(offer(kWire), budget, kWire).lists.count, 0);
  EXPECT_EQ(fill_budget(offer(kWire), budget, kWire).rows.count, 1000);
  budget = kRoomForAll;
  budget.rows = false;
  EXPECT_EQ(fill_budget(offer(kWire), budget, kWire).rows.count, 0);
}

TEST(FillBudget, LeavesWhatSavesNothing) {
  const HaloAmounts amounts = fill_budget({.row_groups = {{10, 100, 5}, {10, 100, 0}}}, kRoomForAll, kWire);
  EXPECT_EQ(amounts.rows.count, 10);
  EXPECT_EQ(amounts.rows.bytes, 100);
}

TEST(FillBudget, GivesListsASixteenthOfAGpuAtMost) {
  const WireBytes wire{.row = 1, .list = 1000};
  HaloBudget budget = kRoomForAll;
  EXPECT_EQ(fill_budget(offer(wire), budget, wire).lists.count, 1000);
  budget.num_gpus = 1;
  budget.gpu_bytes = 160'000;
  const HaloAmounts amounts = fill_budget(offer(wire), budget, wire);
  EXPECT_EQ(amounts.lists.bytes, 10'000);
  EXPECT_EQ(amounts.rows.count, 1000);
}

TEST(HaloBudget, HoldsRowsAndListsWithTheirIndexes) {
  const RegionSizes sizes{.num_nodes = 100, .num_local = 40, .local_edges = 500};
  HaloBudget budget{.bytes = 60 * (100 + 32) + 60 * (8 + 4 + 32) + 300 * 4, .row_bytes = 100};
  EXPECT_TRUE(holds_all(budget, sizes, 800, 2));
  EXPECT_EQ(most_lists(budget, sizes, 2), 60);
  --budget.bytes;
  EXPECT_FALSE(holds_all(budget, sizes, 800, 2));
  budget.bytes = 10 * (8 + 4 + 32);
  EXPECT_EQ(most_lists(budget, sizes, 2), 10);
  budget.lists = false;
  EXPECT_EQ(most_lists(budget, sizes, 2), 0);
}

TEST(HaloBytes, AreATenthOfWhatIsFreeUnlessAPersonGivesThem) {
  EXPECT_EQ(halo_bytes(kAutomatic, 1000), 100);
  EXPECT_EQ(halo_bytes(kAutomatic, -1000), 0);
  EXPECT_EQ(halo_bytes(7, 1000), 7);
}

}  // namespace
}  // namespace strata::plan
