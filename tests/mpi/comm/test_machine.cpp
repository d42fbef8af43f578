#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strata/comm/machine.hpp"
#include "strata/cuda/runtime.hpp"
#include "strata/util/error.hpp"
#include "support/mpi_world.hpp"

namespace strata::comm {
namespace {

using test::world;
using testing::HasSubstr;
using Compute = TopologyOptions::Compute;

Topology find(int ranks_per_machine) {
  return discover(world().communicator(), {.ranks_per_machine = ranks_per_machine, .compute = Compute::cpu});
}

/// World ranks that say they are on `host`.
std::vector<int> ranks_on(const std::string& host) {
  const std::vector<std::string> hosts = world().communicator().all_gather(world().host());
  std::vector<int> ranks;
  for (int r = 0; r < world().size(); ++r) {
    if (hosts[static_cast<std::size_t>(r)] == host) ranks.push_back(r);
  }
  return ranks;
}

TEST(Discover, MakesOneMachineOfAHost) {
  const Topology topology = find(0);
  const std::vector<int> here = ranks_on(world().host());
  const Topology::Rank& own = topology.ranks[static_cast<std::size_t>(world().rank())];
  EXPECT_EQ(topology.machines[static_cast<std::size_t>(own.machine)], here);
  EXPECT_EQ(here[static_cast<std::size_t>(own.local_rank)], world().rank());
  EXPECT_EQ(own.host_rank, own.local_rank);
  EXPECT_EQ(own.host, world().host());
  EXPECT_EQ(topology.ranks_on_host(world().rank()), static_cast<int>(here.size()));
  EXPECT_FALSE(own.device.is_cuda());
  EXPECT_FALSE(topology.virtual_machines);
  EXPECT_FALSE(topology.gpu_per_rank);
}

TEST(Discover, MakesVirtualMachinesOfOneRank) {
  const Topology topology = find(1);
  EXPECT_EQ(topology.num_machines(), world().size());
  EXPECT_TRUE(topology.virtual_machines);
  for (int r = 0; r < world().size(); ++r) {
    EXPECT_EQ(topology.ranks[static_cast<std::size_t>(r)].machine, r);
    EXPECT_EQ(topology.ranks[static_cast<std::size_t>(r)].local_rank, 0);
    EXPECT_EQ(topology.rail(r, 0), 0);
  }
}

TEST(Discover, RefusesRanksThatMachinesDoNotDivide) {
  const int too_many = world().size() + 1;
  try {
    find(too_many);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("machines of " + std::to_string(too_many) + " ranks do not divide"));
    EXPECT_THAT(error.remedy(), HasSubstr("--ranks-per-machine"));
  }
}

TEST(Discover, RefusesOptionsThatDifferBetweenRanks) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  EXPECT_THROW(find(world().rank() == 1 ? 1 : 0), InputError);
}

TEST(Discover, RefusesAGpuWhereThereIsNone) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_THROW(discover(world().communicator(), {.compute = Compute::cuda}), InputError);
  EXPECT_FALSE(discover(world().communicator(), {}).ranks.front().device.is_cuda());
}

TEST(MachineTest, HoldsTheRanksOfItsHost) {
  const Topology topology = find(0);
  Machine machine(world().communicator(), topology);
  const std::vector<int> here = ranks_on(world().host());
  EXPECT_EQ(machine.size(), static_cast<int>(here.size()));
  EXPECT_EQ(here[static_cast<std::size_t>(machine.rank())], world().rank());
  EXPECT_EQ(topology.machines[static_cast<std::size_t>(machine.index())], here);
  EXPECT_EQ(machine.device(), Device{});
  machine.close();
}

TEST(MachineTest, OfOneRankIsAlone) {
  Machine machine(world().communicator(), find(1));
  EXPECT_EQ(machine.size(), 1);
  EXPECT_EQ(machine.index(), world().rank());
  machine.barrier();
  machine.close();
}

TEST(MachineTest, ThrowsEverywhereWhatOneRankThrew) {
  Machine machine(world().communicator(), find(0));
  for (const int culprit : ranks_on(world().host())) {
    const bool own = world().rank() == culprit;
    try {
      machine.together([&] {
        if (own) throw OutOfMemory("no room for 42 GiB", "Buy some.");
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const OutOfMemory& error) {
      const std::string who = "rank " + std::to_string(culprit) + ", host " + world().host() + ": ";
      EXPECT_EQ(error.what(), (own ? "" : who) + "no room for 42 GiB");
      EXPECT_EQ(error.remedy(), "Buy some.");
      EXPECT_EQ(error.is_echo(), !own);
    }
  }
  machine.close();
}

TEST(MachineTest, LetsTheLowestRankThatFailedSpeak) {
  Machine machine(world().communicator(), find(0));
  const std::vector<int> here = ranks_on(world().host());
  try {
    machine.together([&] {
      if (machine.rank() > 0) throw InputError("rank " + std::to_string(machine.rank()));
      throw std::runtime_error("of no type of ours");
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_GT(machine.rank(), 0);
    EXPECT_EQ(error.what(), "rank " + std::to_string(machine.rank()));
    EXPECT_TRUE(error.is_echo());
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(machine.rank(), 0);
    EXPECT_STREQ(error.what(), "of no type of ours");
  }
  if (machine.size() > 1) {
    try {
      machine.together([&] {
        if (machine.rank() == 1) throw std::runtime_error("alone");
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const CommError& error) {
      EXPECT_NE(machine.rank(), 1);
      EXPECT_NE(std::string(error.what()).find("rank " + std::to_string(here[1])), std::string::npos);
    } catch (const std::runtime_error&) {
      EXPECT_EQ(machine.rank(), 1);
    }
  }
  machine.close();
}

TEST(MachineTest, LetsAnEchoSpeakOnlyWhereNobodyElseFailed) {
  Machine machine(world().communicator(), find(0));
  if (machine.size() == 1) GTEST_SKIP() << "needs two ranks";
  try {
    machine.together([&] {
      InputError error("failed on rank " + std::to_string(machine.rank()));
      if (machine.rank() != 1) error.mark_as_echo();
      throw error;
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), "failed on rank " + std::to_string(machine.rank()));
    EXPECT_EQ(error.is_echo(), machine.rank() != 1);
  }
  machine.close();
}

TEST(MachineTest, WorksTogetherWithoutErrors) {
  Machine machine(world().communicator(), find(0));
  int calls = 0;
  machine.together([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  machine.close();
}

TEST(MachineTest, RefusesATopologyOfOtherRanks) {
  Topology topology = find(0);
  topology.ranks.emplace_back();
  EXPECT_THROW(Machine(world().communicator(), topology), CommError);
}

}  // namespace
}  // namespace strata::comm
