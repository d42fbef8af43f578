// SPDX-License-Identifier: Apache-2.0
#include "placement/own_groups.hpp"

#include <gtest/gtest.h>

namespace strata::store {
namespace {

using placement::Keepable;

BatchAccesses accesses() {
  return {.features = {{{{.rows = 10, .accesses = 40}, {.rows = 110, .accesses = 60}}}},
          .list_visits = {{{{.rows = 50, .accesses = 8}}}}};
}

TEST(OwnGroups, SaveWhatHostMemoryTakesLonger) {
  const std::vector<placement::KeepGroup> groups =
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

}  // namespace
}  // namespace strata::store
