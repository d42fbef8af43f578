// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
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
    if (hosts[at(r)] == host) ranks.push_back(r);
  }
  return ranks;
}

TEST(Discover, MakesOneMachineOfAHost) {
  const Topology topology = find(0);
  const std::vector<int> here = ranks_on(world().host());
  const Topology::Rank& own = topology.ranks[at(world().rank())];
  EXPECT_EQ(topology.machines[at(own.machine)], here);
  EXPECT_EQ(here[at(own.local_rank)], world().rank());
  EXPECT_EQ(own.host_rank, own.local_rank);
  EXPECT_EQ(own.host, world().host());
  EXPECT_EQ(topology.ranks_on_host(world().rank()), static_cast<int>(here.size()));
  EXPECT_FALSE(own.device.is_cuda());
  EXPECT_FALSE(topology.virtual_machines);
  EXPECT_FALSE(topology.gpu_per_rank);
}

/// Tested with ranks bound to cores, to sockets, and unbound.
TEST(Discover, DividesTheProcessorsOfAHost) {
  Machine machine(world().communicator(), find(0));
  const Resources& mine = resources_of(machine);
  const std::vector<int> own = HostLimits().processors();
  const auto gathered = [](const std::vector<int>& numbers) {
    return world().communicator().all_gather(fmt::format("{}", fmt::join(numbers, " ")));
  };
  const std::vector<std::string> masks = gathered(own), given = gathered(mine.own_processors),
                                 cores_of = gathered({mine.cores});
  std::map<int, int> taken;  // ranks that a processor is given to
  std::set<int> seen;
  int cores = 0;
  for (const int rank : ranks_on(world().host())) {
    std::istringstream mask(masks[at(rank)]), its(given[at(rank)]);
    for (int processor = 0; mask >> processor;) seen.insert(processor);
    for (int processor = 0; its >> processor;) ++taken[processor];
    cores += std::stoi(cores_of[at(rank)]);
  }
  EXPECT_GE(mine.cores, 1);
  EXPECT_GE(mine.cores_alone, mine.cores);
  EXPECT_EQ(mine.host_ranks, static_cast<int>(ranks_on(world().host()).size()));
  for (const auto& [processor, ranks] : taken) EXPECT_EQ(ranks, 1) << "processor " << processor;
  EXPECT_LE(cores, static_cast<int>(std::max(seen.size(), ranks_on(world().host()).size())));
  for (const int processor : mine.own_processors) EXPECT_EQ(std::ranges::count(own, processor), 1);
  if (!HostLimits().cpu_quotas().empty())
    GTEST_SKIP() << "a quota of CPU time leaves less than the processors";
  const bool alike =
      std::ranges::all_of(masks, [&](const std::string& mask) { return mask == masks.front(); });
  if (alike) {
    EXPECT_EQ(mine.cores, std::max(1, static_cast<int>(own.size()) / mine.host_ranks));
  }
  const char* binding = std::getenv("STRATA_TEST_BINDING");
  if (binding != nullptr && !alike) {
    EXPECT_EQ(mine.cores, static_cast<int>(own.size())) << "a bound rank has its processors for itself";
    EXPECT_EQ(mine.own_processors, own);
  }
  machine.close();
}

TEST(MachineTest, AgreesOnTheMemoryThatIsFree) {
  const auto bytes_of = [](int ranks_per_machine) {
    const Topology topology = find(ranks_per_machine);
    Machine machine(world().communicator(), topology);
    const FreeHostMemory free = comm::free_host_memory(machine);
    EXPECT_GT(free.share_bytes, 0);
    EXPECT_GE(free.most_bytes, free.share_bytes);
    for (const std::string& other : machine.communicator().all_gather(std::to_string(free.share_bytes)))
      EXPECT_EQ(other, std::to_string(free.share_bytes));
    EXPECT_EQ(comm::free_gpu_bytes_per_rank(machine), 0);
    EXPECT_FALSE(comm::computes_on_gpus(machine));
    machine.close();
    return free;
  };
  const FreeHostMemory whole = bytes_of(0), part = bytes_of(1);
  const auto ranks = static_cast<double>(ranks_on(world().host()).size());
  constexpr double kTolerance = 0.2;  // other programs allocate meanwhile
  const auto share = static_cast<double>(whole.share_bytes) / ranks;
  EXPECT_NEAR(static_cast<double>(part.share_bytes), share, kTolerance * share);
  EXPECT_NEAR(static_cast<double>(part.most_bytes), static_cast<double>(whole.most_bytes),
              kTolerance * static_cast<double>(whole.most_bytes));
}

TEST(Discover, MakesVirtualMachinesOfOneRank) {
  const Topology topology = find(1);
  EXPECT_EQ(topology.num_machines(), world().size());
  EXPECT_TRUE(topology.virtual_machines);
  for (int r = 0; r < world().size(); ++r) {
    EXPECT_EQ(topology.ranks[at(r)].machine, r);
    EXPECT_EQ(topology.ranks[at(r)].local_rank, 0);
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
  EXPECT_EQ(here[at(machine.rank())], world().rank());
  EXPECT_EQ(topology.machines[at(machine.index())], here);
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
