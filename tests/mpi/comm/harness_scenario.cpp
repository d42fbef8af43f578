// SPDX-License-Identifier: Apache-2.0
// Tests that fail on one rank: ctest expects that the harness fails them everywhere and names the rank.
#include <gtest/gtest.h>

#include <stdexcept>

#include "support/mpi_world.hpp"

namespace strata::test {
namespace {

bool is_last() { return world().rank() == world().size() - 1; }

TEST(Harness, Passes) { world().communicator().barrier(); }

TEST(Harness, FailsOnTheLastRank) { EXPECT_FALSE(is_last()) << "the last rank says no"; }

TEST(Harness, ThrowsOnTheLastRank) {
  if (is_last()) throw std::runtime_error("thrown on the last rank");
}

TEST(Harness, LeavesOthersWaiting) {
  ASSERT_FALSE(is_last()) << "left early";
  world().communicator().barrier();
}

TEST(Harness, NeverEnds) {
  if (is_last()) world().communicator().barrier();
}

TEST(Harness, SkipsEverywhere) { GTEST_SKIP() << "needs what no machine has"; }

TEST(Harness, SkipsOnTheLastRank) {
  if (is_last()) GTEST_SKIP() << "only here";
}

}  // namespace
}  // namespace strata::test
