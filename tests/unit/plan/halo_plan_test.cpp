// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/halo_plan.hpp"

#include <gtest/gtest.h>

namespace strata::plan {
namespace {

void alone(std::span<double>) {}

/// 1,000 rows of 100 bytes, of which a batch reads 500, and 1,000 lists of 50 bytes, of which it visits 200;
/// the hotter half has four fifths of either.
HaloOffer offer(const ExchangeCosts& costs) {
  const double row = costs.row_seconds, list = costs.list_seconds;
  return {.rows = 500,
          .visits = 200,
          .row_groups = {{Keepable::other_rows, 500, 50'000, 400 * row},
                         {Keepable::other_rows, 500, 50'000, 100 * row}},
          .list_groups = {{Keepable::other_lists, 500, 25'000, 160 * list},
                          {Keepable::other_lists, 500, 25'000, 40 * list}}};
}

constexpr HaloBudget kRoomForAll{.bytes = 1 << 20, .row_bytes = 100};

// 400 rows answered in 50,000 bytes are 8 us per kB at 1 us each, and 160 lists in 25,000 are 6.4.
TEST(WhatPays, IsOrderedByTimePerByte) {
  const ExchangeCosts costs{.row_seconds = 1e-6, .list_seconds = 1e-6};
  HaloBudget budget = kRoomForAll;
  budget.bytes = 50'000;
  const HaloAmounts rows = plan_what_pays(offer(costs), budget, costs, alone).amounts;
  EXPECT_EQ(rows.rows.count, 500);
  EXPECT_EQ(rows.lists.count, 0);
  budget.bytes = 80'000;
  const HaloAmounts both = plan_what_pays(offer(costs), budget, costs, alone).amounts;
  EXPECT_EQ(both.rows.count, 550);
  EXPECT_EQ(both.lists.count, 500);
  EXPECT_DOUBLE_EQ(both.lists.answered, 160);
  const ExchangeCosts slow_lists{.row_seconds = 1e-6, .list_seconds = 2e-6};
  budget.bytes = 25'000;
  const HaloAmounts lists = plan_what_pays(offer(slow_lists), budget, slow_lists, alone).amounts;
  EXPECT_EQ(lists.rows.count, 0);
  EXPECT_EQ(lists.lists.count, 500);
}

TEST(WhatPays, IsNoKindWhoseLookUpsTakeLongerThanItSaves) {
  const ExchangeCosts costs{
      .row_seconds = 1e-6, .list_seconds = 1e-6, .find_row_seconds = 0.1e-6, .find_list_seconds = 1.1e-6};
  const HaloPlan plan = plan_what_pays(offer(costs), kRoomForAll, costs, alone);
  EXPECT_EQ(plan.amounts.rows.count, 1000);
  EXPECT_EQ(plan.amounts.lists.count, 0);
  ASSERT_EQ(plan.decisions.size(), 2u);
  const CacheDecision &rows = plan.decisions[0], &lists = plan.decisions[1];
  EXPECT_EQ(rows.chosen.kept, 1000);
  EXPECT_NEAR(rows.seconds_without, 500e-6, 1e-12);
  EXPECT_NEAR(rows.seconds, 500 * 0.1e-6, 1e-12);
  EXPECT_EQ(lists.chosen.kept, 0);
  EXPECT_EQ(lists.largest.kept, 1000);
  EXPECT_NEAR(lists.largest.answered, 200, 1e-9);
  EXPECT_EQ(lists.seconds, lists.seconds_without);
}

// Machines agree: where the others lose more than this one gains, nothing is kept.
TEST(WhatPays, IsWhatAllMachinesGainBy) {
  const ExchangeCosts costs{.row_seconds = 1e-6, .list_seconds = 1e-6};
  const HaloPlan plan = plan_what_pays(offer(costs), kRoomForAll, costs, [](std::span<double> sums) {
    constexpr double kLossOfOthers = 1;
    for (double& sum : sums) sum -= kLossOfOthers;
    sums.back() = 2;
  });
  EXPECT_EQ(plan.amounts.rows.count, 0);
  EXPECT_EQ(plan.amounts.lists.count, 0);
}

TEST(WhatPays, LeavesOutWhatTheBudgetHasNoPlaceFor) {
  const ExchangeCosts costs{.row_seconds = 1e-6, .list_seconds = 1e-6};
  HaloBudget budget = kRoomForAll;
  budget.lists = false;
  const HaloPlan plan = plan_what_pays(offer(costs), budget, costs, alone);
  EXPECT_EQ(plan.amounts.lists.count, 0);
  ASSERT_EQ(plan.decisions.size(), 1u);
  EXPECT_EQ(plan.decisions[0].what, "feature rows");
}

// A GPU has 30,000 bytes. Own rows save more per byte than all that others have, so lists get what is left.
TEST(WhatPays, LetsOwnRowsCompeteForGpus) {
  const ExchangeCosts costs{.row_seconds = 1e-6, .list_seconds = 1e-6, .near = 1e15, .far = 1e7};
  HaloOffer wanted = offer(costs);
  HaloBudget budget = kRoomForAll;
  budget.gpu_bytes = 30'000;
  budget.num_gpus = 1;
  budget.rows = false;
  EXPECT_EQ(plan_what_pays(wanted, budget, costs, alone).amounts.lists.count, 600);
  wanted.own_groups = {{Keepable::own_rows, 200, 20'000, 400e-6}};
  EXPECT_EQ(plan_what_pays(wanted, budget, costs, alone).amounts.lists.count, 200);
}

// Asking takes 1 us. A row in host memory takes as long at 1e8 bytes per second, and a tenth of it at 1e9.
TEST(WhatPays, LeavesRowsInHostMemoryWhereTheyAreFasterThanTheLink) {
  ExchangeCosts costs{.row_seconds = 1e-6, .near = 1e12, .far = 1e8};
  HaloBudget budget = kRoomForAll;
  budget.lists = false;
  budget.gpu_bytes = 50'000;
  budget.num_gpus = 1;
  EXPECT_EQ(plan_what_pays(offer(costs), budget, costs, alone).amounts.rows.count, 500);
  costs.far = 1e9;
  const HaloPlan plan = plan_what_pays(offer(costs), budget, costs, alone);
  EXPECT_EQ(plan.amounts.rows.count, 1000);
  EXPECT_NEAR(plan.decisions[0].seconds, 400 * 0.1e-9 + 100 * 0.1e-6, 1e-12);
}

TEST(FillBudget, GivesListsASixteenthOfAGpuAtMost) {
  const ExchangeCosts costs{.row_seconds = 1e-9, .list_seconds = 1e-6};
  HaloBudget budget = kRoomForAll;
  EXPECT_EQ(fill_budget(offer(costs), budget, costs).lists.count, 1000);
  budget.num_gpus = 1;
  budget.gpu_bytes = 160'000;
  const HaloAmounts amounts = fill_budget(offer(costs), budget, costs);
  EXPECT_EQ(amounts.lists.bytes, 10'000);
  EXPECT_EQ(amounts.rows.count, 1000);
}

BatchAccesses accesses() {
  return {.features = {{{{.rows = 10, .accesses = 40}, {.rows = 110, .accesses = 60}}}},
          .list_visits = {{{{.rows = 50, .accesses = 8}}}}};
}

TEST(OwnGroups, SaveWhatHostMemoryTakesLonger) {
  const std::vector<KeepGroup> groups =
      own_groups(accesses(), {.row_bytes = 100, .entry_bytes = 4, .stripes = 2},
                 {.near = 1e9, .far = 1e8, .host_list_seconds = 1e-7});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].kind, Keepable::own_rows);
  EXPECT_EQ(groups[0].count, 10);
  EXPECT_EQ(groups[0].bytes, 500);
  EXPECT_NEAR(groups[0].saved_seconds, 40 * (1e-6 - 1e-7), 1e-15);
  EXPECT_EQ(groups[1].count, 100);
  EXPECT_NEAR(groups[1].saved_seconds, 20 * (1e-6 - 1e-7), 1e-15);
  EXPECT_EQ(groups[2].kind, Keepable::own_lists);
  EXPECT_EQ(groups[2].bytes, 100);
  EXPECT_NEAR(groups[2].saved_seconds, 8e-7, 1e-15);
}

TEST(OwnGroups, AreNoneWithoutGpus) {
  EXPECT_TRUE(own_groups(accesses(), {.row_bytes = 100, .entry_bytes = 4}, {}).empty());
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
