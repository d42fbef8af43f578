// SPDX-License-Identifier: Apache-2.0
#include "run_caches.hpp"

#include <gtest/gtest.h>

namespace strata::train {
namespace {

store::CacheDecision decision(std::size_t option, Count kept, Count largest) {
  return {.what = "feature rows",
          .reads = {},
          .largest = {.kept = largest},
          .option = option,
          .chosen = {.kept = kept}};
}

constexpr std::int64_t kAutomatic = store::LoadOptions::kAutomatic;

TEST(CachesFor, LeaveTheStoreWhatThereIsMemoryForWhereAllOfItPays) {
  const RunCaches caches = caches_for({decision(1, 100, 100), decision(1, 70, 70)}, 8);
  EXPECT_EQ(caches.bytes, kAutomatic);
  EXPECT_TRUE(caches.lists);
  EXPECT_EQ(caches.decisions.size(), 2u);
}

TEST(CachesFor, KeepOnlyRowsWhereListsDoNotPay) {
  EXPECT_FALSE(caches_for({decision(1, 100, 100), decision(0, 0, 70)}, 8).lists);
  EXPECT_FALSE(caches_for({decision(1, 100, 100)}, 8).lists);
}

TEST(CachesFor, KeepNothingWhereRowsDoNotPay) {
  EXPECT_EQ(caches_for({decision(0, 0, 100), decision(0, 0, 70)}, 8).bytes, 0);
}

// Of a size that is given, lists get a quarter.
TEST(CachesFor, GiveRowsTheRoomOfThoseThatPay) {
  EXPECT_EQ(caches_for({decision(1, 30, 100), decision(0, 0, 70)}, 8).bytes, 30 * 8);
  EXPECT_EQ(caches_for({decision(1, 30, 100), decision(1, 70, 70)}, 8).bytes, 30 * 8 / 3 * 4);
}

TEST(CachesFor, DecideNothingWithoutReasons) { EXPECT_EQ(caches_for({}, 8).bytes, kAutomatic); }

}  // namespace
}  // namespace strata::train
