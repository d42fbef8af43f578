// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/comm/device_exchange.hpp"
#include "support/run_setup.hpp"

namespace strata::comm {
namespace {

void expect_alike(const LinkFacts& mine, const Topology& topology) {
  if (topology.num_machines() == 1) {
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

TEST(Link, IsMeasuredAlikeOnAllRanks) {
  const test::RunSetup run(1);
  expect_alike(measure_link(test::world().communicator(), run.topology), run.topology);
}

TEST(Link, BetweenDevicesIsMeasuredAlikeOnAllRanks) {
  const Communicator& world = test::world().communicator();
  const test::RunSetup run(1, TopologyOptions::Compute::automatic);
  const Device device = run.machine.device();
  const auto wire = can_exchange_on_devices(run.topology, device) ? make_device_exchange(world, device)
                                                                  : make_mpi_exchange(world, device);
  expect_alike(measure_link(*wire, world, run.topology, device), run.topology);
  wire->close();
}

TEST(Link, IsNothingWithinAMachine) {
  const test::RunSetup run(0);
  const LinkFacts facts = measure_link(test::world().communicator(), run.topology);
  EXPECT_EQ(facts.round_seconds, 0);
  EXPECT_EQ(facts.bytes_per_second, 0);
}

}  // namespace
}  // namespace strata::comm
