// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/link.hpp"

#include <gtest/gtest.h>

#include "support/run_setup.hpp"

namespace strata::comm {
namespace {

TEST(Link, IsMeasuredAlikeOnAllRanks) {
  const test::RunSetup run(1);
  const LinkFacts mine = measure_link(test::world().communicator(), run.topology);
  if (run.topology.num_machines() == 1) {
    EXPECT_EQ(mine.round_seconds, 0);
    EXPECT_EQ(mine.bytes_per_second, 0);
    return;
  }
  EXPECT_GT(mine.round_seconds, 0);
  EXPECT_LT(mine.round_seconds, 1);
  EXPECT_GT(mine.bytes_per_second, 1e6);
  std::vector<double> least{mine.round_seconds, mine.bytes_per_second}, most = least;
  test::world().communicator().all_reduce(least, Communicator::Op::min);
  test::world().communicator().all_reduce(most, Communicator::Op::max);
  EXPECT_EQ(least[0], most[0]);
  EXPECT_EQ(least[1], most[1]);
}

TEST(Link, IsNothingWithinAMachine) {
  const test::RunSetup run(0);
  const LinkFacts facts = measure_link(test::world().communicator(), run.topology);
  EXPECT_EQ(facts.round_seconds, 0);
  EXPECT_EQ(facts.bytes_per_second, 0);
}

}  // namespace
}  // namespace strata::comm
