// SPDX-License-Identifier: Apache-2.0
#include "strata/plan/cache_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned_run.hpp"
#include "planning/plan.hpp"
#include "strata/graph/manifest_file.hpp"

namespace strata::train {
namespace {

using testing::HasSubstr;

/// Half of the nodes answer 80 % of what is remote.
BatchProfile profile() {
  BatchProfile profile = two_hops();
  profile.remote_heat.fill(0.1);
  profile.remote_heat[0] = 1;
  profile.remote_heat[1] = 0.8;
  profile.batches = 1;
  return profile;
}

class CachePlan : public testing::Test {
 protected:
  plan::ExchangeCosts costs(const plan::CacheRates& rates) const {
    return plan::exchange_costs(run_shape(config_, 2), manifest_, rates);
  }
  plan::HaloOffer offer(const plan::ExchangeCosts& costs) const {
    const plan::RunShape run = run_shape(config_, 2);
    return plan::offer_of({.run = run,
                           .manifest = manifest_,
                           .profile = profile_,
                           .costs = costs,
                           .others = 10'000,
                           .ranks = 2});
  }

  TrainConfig config_ = planted_config();
  graph::Manifest manifest_ = graph::read_manifest(config_.graph.parts().value());
  BatchProfile profile_ = profile();
};

TEST_F(CachePlan, CountsTheBytesOfARowAndItsId) {
  EXPECT_DOUBLE_EQ(costs({.rows = {.bytes_per_second = 1e8}}).row_seconds, (8 + 32 * 4) / 1e8);
  config_.row_exchange_precision = RowPrecision::bf16;
  EXPECT_DOUBLE_EQ(costs({.rows = {.bytes_per_second = 1e8}}).row_seconds, (8 + 32 * 2) / 1e8);
}

// An id and a number, and 4 bytes of each pick.
TEST_F(CachePlan, CountsTheBytesOfAnAnswer) {
  const plan::ExchangeCosts over_mpi = costs({.lists = {.bytes_per_second = 1e8, .find_seconds = 4e-8}});
  EXPECT_DOUBLE_EQ(over_mpi.list_seconds, 8 / 1e8);
  EXPECT_DOUBLE_EQ(over_mpi.pick_seconds, 4 / 1e8);
  EXPECT_DOUBLE_EQ(over_mpi.find_list_seconds, 4e-8);
  EXPECT_DOUBLE_EQ(offer(over_mpi).mean_picks, 3);
  const plan::ExchangeCosts on_devices = costs({.lists = {.on_devices = true, .bytes_per_second = 1e8}});
  EXPECT_DOUBLE_EQ(offer(on_devices).mean_picks, 3);  // the fanout of the hop that reaches other machines
}

TEST_F(CachePlan, OffersAllNodesOfOtherMachines) {
  const plan::ExchangeCosts known =
      costs({.rows = {.bytes_per_second = 1e8}, .lists = {.bytes_per_second = 1e8}});
  const plan::HaloOffer wanted = offer(known);
  EXPECT_EQ(wanted.rows, 1000);
  EXPECT_EQ(wanted.visits, 100);
  Count rows = 0, lists = 0;
  double row_seconds = 0, list_seconds = 0;
  for (const plan::KeepGroup& group : wanted.row_groups) {
    rows += group.count;
    row_seconds += group.saved_seconds;
  }
  for (const plan::KeepGroup& group : wanted.list_groups) {
    lists += group.count;
    list_seconds += group.saved_seconds;
  }
  EXPECT_EQ(rows, 10'000);
  EXPECT_EQ(lists, 10'000);
  EXPECT_NEAR(row_seconds, 1000 * 136 / 1e8, 1e-12);
  EXPECT_NEAR(list_seconds, 100 * 20 / 1e8, 1e-12);
}

// The hottest row is read 100 times of 1,000 and the second quarter of all rows 700 times; the rest of the
// first quarter is never read, so that a cache of half of the rows has room for half of the colder half's
// 200.
TEST_F(CachePlan, ExpectsWhatTheHottestRowsAnswer) {
  const plan::ExchangeCosts known = costs({.rows = {.bytes_per_second = 1e8}});
  const auto half = 5'000 * plan::kept_row_bytes(128, 2);
  const plan::HaloAmounts amounts = plan::best_amounts(
      offer(known), {.bytes = half, .lists = false, .row_bytes = 128}, known, plan::kKeepAll);
  EXPECT_NEAR(static_cast<double>(amounts.rows.count), 5'000, 1);
  EXPECT_NEAR(amounts.rows.answered, 900, 0.2);
}

TEST_F(CachePlan, TellsInThePlanWhatIsKeptAndWhy) {
  const StepPlan slow = make_plan(config_, plan::parse_cluster("machines=2,ranks=1,link=1Gbit/s"));
  EXPECT_GT(slow.memory.cached_rows, 0.9);
  EXPECT_THAT(plan_text(config_, slow), HasSubstr("of other machines' feature rows answers"));
  const StepPlan fast = make_plan(config_, plan::parse_cluster("machines=2,ranks=1,link=4000Gbit/s"));
  EXPECT_EQ(fast.memory.cached_rows, 0);
  EXPECT_EQ(fast.memory.cache_bytes, 0);
  EXPECT_THAT(plan_text(config_, fast), HasSubstr("no cache of other machines' feature rows"));
}

TEST_F(CachePlan, KeepsWhatAPersonAsksFor) {
  config_.halo_cache_bytes = 1 << 24;
  const StepPlan plan = make_plan(config_, plan::parse_cluster("machines=2,ranks=1,link=4000Gbit/s"));
  EXPECT_GT(plan.memory.cached_rows, 0.9);
  EXPECT_EQ(plan_text(config_, plan).find("other machines' feature rows"), std::string::npos);
}

}  // namespace
}  // namespace strata::train
