// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "planned_run.hpp"
#include "planning/plan.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/plan/forecast.hpp"

namespace strata::train {
namespace {

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
  plan::WireBytes wire() const { return plan::wire_bytes(run_shape(config_, {}, 2), manifest_); }
  plan::HaloOffer offer() const {
    const plan::RunShape run = run_shape(config_, {}, 2);
    const plan::WireBytes bytes = wire();
    return plan::offer_of({.run = run,
                           .manifest = manifest_,
                           .profile = profile_,
                           .wire = bytes,
                           .others = 10'000,
                           .ranks = 2});
  }

  TrainConfig config_ = planted_config();
  graph::Manifest manifest_ = graph::read_manifest(config_.graph.parts().value());
  BatchProfile profile_ = profile();
};

TEST_F(CachePlan, CountsTheBytesOfARowAndItsId) {
  EXPECT_EQ(wire().row, 8 + 32 * 4);
  config_.row_exchange_precision = RowPrecision::bf16;
  EXPECT_EQ(wire().row, 8 + 32 * 2);
}

// An id and a number, and 4 bytes of each pick.
TEST_F(CachePlan, CountsTheBytesOfAnAnswer) {
  EXPECT_EQ(wire().list, 8);
  EXPECT_EQ(wire().pick, 4);
  EXPECT_DOUBLE_EQ(offer().mean_picks, 3);
}

TEST_F(CachePlan, OffersAllNodesOfOtherMachines) {
  const plan::HaloOffer wanted = offer();
  Count rows = 0, lists = 0;
  double row_bytes = 0, list_bytes = 0;
  for (const plan::KeepGroup& group : wanted.row_groups) {
    rows += group.count;
    row_bytes += group.saved;
  }
  for (const plan::KeepGroup& group : wanted.list_groups) {
    lists += group.count;
    list_bytes += group.saved;
  }
  EXPECT_EQ(rows, 10'000);
  EXPECT_EQ(lists, 10'000);
  EXPECT_NEAR(row_bytes, 1000 * 136, 1e-6);
  EXPECT_NEAR(list_bytes, 100 * 20, 1e-6);
}

// The hottest row is read 100 times of 1,000 and the second quarter of all rows 700 times; the rest of the
// first quarter is never read, so that a cache of half of the rows has room for half of the colder half's
// 200.
TEST_F(CachePlan, ExpectsWhatTheHottestRowsAnswer) {
  const auto half = 5'000 * plan::kept_row_bytes(128, 2);
  const plan::HaloAmounts amounts =
      plan::fill_budget(offer(), {.bytes = half, .lists = false, .row_bytes = 128}, wire());
  EXPECT_NEAR(static_cast<double>(amounts.rows.count), 5'000, 1);
  EXPECT_NEAR(amounts.rows.answered, 900, 0.2);
}

TEST_F(CachePlan, FillsATenthOfTheFreeMemoryOrWhatAPersonGives) {
  const plan::Cluster cluster = plan::parse_cluster("machines=2,ranks=1,link=1Gbit/s");
  EXPECT_GT(make_plan(config_, cluster).memory.cached_rows, 0.9);
  config_.halo_cache_bytes = 1 << 24;
  EXPECT_GT(make_plan(config_, cluster).memory.cached_rows, 0.9);
  config_.halo_cache_bytes = 0;
  EXPECT_EQ(make_plan(config_, cluster).memory.cached_rows, 0);
}

}  // namespace
}  // namespace strata::train
