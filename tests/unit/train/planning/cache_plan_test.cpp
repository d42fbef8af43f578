// SPDX-License-Identifier: Apache-2.0
#include "planning/cache_plan.hpp"

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
  CacheTask task(const CacheRates& rates, const CacheRoom& room) const {
    return {.config = config_,
            .manifest = manifest_,
            .profile = profile_,
            .rates = rates,
            .room = room,
            .others = 10'000};
  }

  TrainConfig config_ = planted_config();
  graph::Manifest manifest_ = graph::read_manifest(config_.graph.parts().value());
  BatchProfile profile_ = profile();
};

constexpr std::int64_t kRowBytes = 32 * 4, kHalf = 5'000 * kRowBytes, kAll = 10'000 * kRowBytes;

TEST_F(CachePlan, KeepsRowsWhereTheLinkIsSlowerThanLookUps) {
  // A row and its id are 136 bytes: 1.36 us, and looking for it takes 0.1 us.
  const CacheRates rates{.rows = {.bytes_per_second = 1e8, .find_seconds = 1e-7}};
  const store::CacheDecision decision = decide_rows(task(rates, {.row_bytes = kHalf}));
  EXPECT_DOUBLE_EQ(decision.reads.ask_seconds, 1.36e-6);
  EXPECT_EQ(decision.chosen.kept, 5'000);
  EXPECT_DOUBLE_EQ(decision.chosen.answered, 800);
  EXPECT_DOUBLE_EQ(decision.seconds_without, 1360e-6);
  EXPECT_NEAR(decision.seconds, 200 * 1.36e-6 + 1000 * 1e-7, 1e-12);
}

TEST_F(CachePlan, KeepsNoRowsWhereLookUpsTakeLongerThanWhatTheySave) {
  const CacheRates rates{.rows = {.bytes_per_second = 1.36e10, .find_seconds = 1e-8}};  // 10 ns each
  EXPECT_EQ(decide_rows(task(rates, {.row_bytes = kHalf})).option, 0u);
}

TEST_F(CachePlan, KeepsNoRowsWithoutMemory) {
  const CacheRates rates{.rows = {.bytes_per_second = 1e8, .find_seconds = 1e-7}};
  const store::CacheDecision decision = decide_rows(task(rates, {}));
  EXPECT_EQ(decision.largest.kept, 0);
  EXPECT_EQ(decision.option, 0u);
}

// Beside a link of 50 GB/s, rows on GPUs pay, and rows in host memory at 12 GB/s do not.
TEST_F(CachePlan, KeepsOnlyRowsThatFitGpusWhereTheHostIsSlowerThanTheLink) {
  CacheRates rates{.rows = {.on_devices = true, .bytes_per_second = 5e10, .find_seconds = 2e-10},
                   .lists = {},
                   .near = 4e11,
                   .far = 1.2e10};
  const CacheRoom room{.row_bytes = kAll, .near_bytes = kHalf};
  EXPECT_EQ(decide_rows(task(rates, room)).chosen.kept, 5'000);
  rates.rows.bytes_per_second = 2e9;
  EXPECT_EQ(decide_rows(task(rates, room)).chosen.kept, 10'000);
}

TEST_F(CachePlan, ExpectsHalfTheBytesOfRowsInBf16) {
  config_.row_exchange_precision = RowPrecision::bf16;
  const CacheRates rates{.rows = {.bytes_per_second = 1e8}};
  EXPECT_DOUBLE_EQ(decide_rows(task(rates, {})).reads.ask_seconds, (8 + 64) / 1e8);
}

TEST_F(CachePlan, KeepsListsWhereAskingTakesLonger) {
  // An id, a number and 3 picks of 4 bytes: 20 bytes.
  CacheRates rates{.rows = {}, .lists = {.bytes_per_second = 1e8, .find_seconds = 4e-8}};
  const store::CacheDecision slow = decide_lists(task(rates, {.list_bytes = 1 << 24}));
  EXPECT_DOUBLE_EQ(slow.reads.ask_seconds, 20 / 1e8);
  EXPECT_EQ(slow.chosen.kept, 10'000);
  EXPECT_DOUBLE_EQ(slow.chosen.answered, 100);
  rates.lists.bytes_per_second = 4e9;  // 5 ns
  EXPECT_EQ(decide_lists(task(rates, {.list_bytes = 1 << 24})).option, 0u);
}

TEST_F(CachePlan, TellsInThePlanWhatIsKeptAndWhy) {
  const StepPlan slow = make_plan(config_, parse_cluster("machines=2,ranks=1,link=1Gbit/s"));
  EXPECT_GT(slow.memory.cached_rows, 0.9);
  EXPECT_THAT(plan_text(config_, slow), HasSubstr("of other machines' feature rows answers"));
  const StepPlan fast = make_plan(config_, parse_cluster("machines=2,ranks=1,link=4000Gbit/s"));
  EXPECT_EQ(fast.memory.cached_rows, 0);
  EXPECT_EQ(fast.memory.cache_bytes, 0);
  EXPECT_THAT(plan_text(config_, fast), HasSubstr("no cache of other machines' feature rows"));
}

TEST_F(CachePlan, KeepsWhatAPersonAsksFor) {
  config_.halo_cache_bytes = 1 << 24;
  const StepPlan plan = make_plan(config_, parse_cluster("machines=2,ranks=1,link=4000Gbit/s"));
  EXPECT_GT(plan.memory.cached_rows, 0.9);
  EXPECT_EQ(plan_text(config_, plan).find("other machines' feature rows"), std::string::npos);
}

}  // namespace
}  // namespace strata::train
