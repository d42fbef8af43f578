// SPDX-License-Identifier: Apache-2.0
#include "topology/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strata/comm/communicator.hpp"
#include "strata/comm/machine.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Compute = TopologyOptions::Compute;

/// A rank on the host whose lowest world rank is `leader`.
RankFacts on_host(int leader, std::vector<std::string> gpus = {}, TopologyOptions options = {}) {
  return {.host = "h" + std::to_string(leader),
          .host_leader = leader,
          .gpus = std::move(gpus),
          .options = options};
}

/// Ranks 0..3 on h0, 4..7 on h4; every rank sees the four GPUs of its host.
std::vector<RankFacts> two_hosts_of_four(TopologyOptions options = {}) {
  std::vector<RankFacts> facts;
  for (int r = 0; r < 8; ++r) {
    const std::string host = r < 4 ? "a" : "b";
    facts.push_back(on_host(r < 4 ? 0 : 4, {host + "0", host + "1", host + "2", host + "3"}, options));
  }
  return facts;
}

std::string refusal(const std::vector<RankFacts>& facts) {
  try {
    arrange(facts);
  } catch (const InputError& error) {
    return std::string(error.what()) + " / " + error.remedy();
  }
  return "accepted";
}

TEST(Arrange, GivesEveryRankOfAHostAnotherGpu) {
  const Topology topology = arrange(two_hosts_of_four());
  EXPECT_THAT(topology.machines, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_TRUE(topology.gpu_per_rank);
  const Topology::Rank& rank = topology.ranks[6];
  EXPECT_EQ(rank.host, "h4");
  EXPECT_EQ(rank.machine, 1);
  EXPECT_EQ(rank.local_rank, 2);
  EXPECT_EQ(rank.host_rank, 2);
  EXPECT_EQ(rank.device.str(), "cuda:2");
  EXPECT_EQ(rank.gpu_uuid, "b2");
  EXPECT_EQ(topology.ranks_on_host(6), 4);
}

TEST(Arrange, DividesAHostIntoVirtualMachines) {
  const Topology topology = arrange(two_hosts_of_four({.ranks_per_machine = 2}));
  EXPECT_TRUE(topology.virtual_machines);
  EXPECT_THAT(topology.machines,
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_EQ(topology.ranks[7].local_rank, 1);
  EXPECT_EQ(topology.ranks[7].host_rank, 3);
  EXPECT_EQ(topology.ranks[7].device.index, 3);
  EXPECT_EQ(topology.ranks_on_host(7), 4);
}

TEST(Arrange, NumbersMachinesByTheirLowestRankWhereHostsAlternate) {
  const Topology topology = arrange({on_host(0), on_host(1), on_host(0), on_host(1), on_host(0)});
  EXPECT_THAT(topology.machines, ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3)));
  EXPECT_EQ(topology.ranks[3].local_rank, 1);
}

TEST(Arrange, AlignsRailsBetweenMachinesOfDifferentSizes) {
  const Topology topology = arrange({on_host(0), on_host(0), on_host(0), on_host(3), on_host(3)});
  EXPECT_EQ(topology.rail(0, 1), 3);
  EXPECT_EQ(topology.rail(1, 1), 4);
  EXPECT_EQ(topology.rail(2, 1), 3);
  EXPECT_EQ(topology.rail(4, 0), 1);
  EXPECT_EQ(topology.rail(2, 0), 2);
}

TEST(Arrange, SharesGpusAmongMoreRanks) {
  const Topology topology = arrange({on_host(0, {"a"}), on_host(0, {"a"})});
  EXPECT_EQ(topology.ranks[1].device.str(), "cuda:0");
  EXPECT_FALSE(topology.gpu_per_rank);
}

TEST(Arrange, KnowsGpusThatEveryProcessSeesAsItsFirst) {
  const Topology topology = arrange({on_host(0, {"a"}), on_host(0, {"b"})});
  EXPECT_EQ(topology.ranks[1].device.index, 0);
  EXPECT_TRUE(topology.gpu_per_rank);
}

TEST(Arrange, UsesTheCpuWhereAHostHasNoGpuOrIsAskedTo) {
  const Topology mixed = arrange({on_host(0, {"a"}), on_host(1)});
  EXPECT_TRUE(mixed.ranks[0].device.is_cuda());
  EXPECT_FALSE(mixed.ranks[1].device.is_cuda());
  EXPECT_FALSE(mixed.gpu_per_rank);
  const Topology cpu = arrange({on_host(0, {"a"}, {.compute = Compute::cpu})});
  EXPECT_FALSE(cpu.ranks[0].device.is_cuda());
  EXPECT_EQ(cpu.ranks[0].gpu_uuid, "");
}

TEST(Arrange, GivesARankTheGpuThatItAsksFor) {
  const TopologyOptions third{.gpu = 2};
  const Topology topology = arrange({on_host(0, {"a", "b", "c"}, third), on_host(0, {"a", "b", "c"})});
  EXPECT_EQ(topology.ranks[0].device.str(), "cuda:2");
  EXPECT_EQ(topology.ranks[0].gpu_uuid, "c");
  EXPECT_EQ(topology.ranks[1].device.str(), "cuda:1");
  EXPECT_THAT(refusal({on_host(0, {"a"}), on_host(0, {"a", "b"}, third)}),
              HasSubstr("rank 1 (host h0) asks for cuda:2 and sees 2 GPUs"));
  const Topology none = arrange({on_host(0, {}, {.compute = Compute::cpu, .gpu = 2})});
  EXPECT_FALSE(none.ranks[0].device.is_cuda());
}

TEST(NetworkAddresses, AreThoseOfTheInterfacesThatAUserLists) {
  setenv("GLOO_SOCKET_IFNAME", "nothing,lo", 1);
  EXPECT_THAT(network_addresses(), Contains("127.0.0.1"));
  setenv("GLOO_SOCKET_IFNAME", "nothing", 1);
  EXPECT_THAT(network_addresses(), IsEmpty());
  unsetenv("GLOO_SOCKET_IFNAME");
  EXPECT_THAT(network_addresses(), Not(Contains("127.0.0.1")));
}

TEST(Arrange, TellsHostsOfOneNameApart) {
  std::vector<RankFacts> facts = {on_host(0), on_host(1)};
  for (RankFacts& rank : facts) rank.host = "container";
  const Topology topology = arrange(facts);
  EXPECT_EQ(topology.ranks[0].host, "container");
  EXPECT_EQ(topology.ranks[1].host, "container#2");
  EXPECT_EQ(topology.ranks_on_host(1), 1);
}

TEST(Arrange, RefusesAGpuWhereThereIsNone) {
  const TopologyOptions options{.compute = Compute::cuda};
  const std::string text = refusal({on_host(0, {"a"}, options), on_host(1, {}, options)});
  EXPECT_THAT(text, HasSubstr("but rank 1 (host h1) sees none"));
  EXPECT_THAT(text, HasSubstr("--device cpu"));
}

TEST(Arrange, NamesAllRanksThatHaveNoGpu) {
  const TopologyOptions options{.compute = Compute::cuda};
  EXPECT_THAT(refusal({on_host(0, {}, options), on_host(0, {"a"}, options), on_host(0, {}, options),
                       on_host(3, {}, options), on_host(3, {"a"}, options)}),
              HasSubstr("but ranks 0, 2 (host h0), 3 (host h3) see none"));
}

TEST(Arrange, TellsRanksOnGpusFromThoseOnTheCpu) {
  const Topology mixed = arrange({on_host(0, {"a"}), on_host(0), on_host(2), on_host(2, {"b"})});
  EXPECT_THAT(ranks_on(mixed, Device::Kind::cuda), ElementsAre(0, 3));
  EXPECT_THAT(ranks_on(mixed, Device::Kind::cpu), ElementsAre(1, 2));
  EXPECT_EQ(names_of_ranks(ranks_on(mixed, Device::Kind::cpu), mixed), "ranks 1 (host h0), 2 (host h2)");
  EXPECT_EQ(names_of_ranks({3}, mixed), "rank 3 (host h2)");
}

TEST(Arrange, RefusesRanksThatMachinesDoNotDivide) {
  const TopologyOptions options{.ranks_per_machine = 2};
  const std::string text =
      refusal({on_host(0, {}, options), on_host(0, {}, options), on_host(0, {}, options)});
  EXPECT_THAT(text, HasSubstr("host h0 has 3 ranks, which machines of 2 ranks do not divide"));
  EXPECT_THAT(text, HasSubstr("--ranks-per-machine"));
}

TEST(Arrange, RefusesNegativeMachinesAndDifferentOptions) {
  EXPECT_THAT(refusal({on_host(0, {}, {.ranks_per_machine = -1})}), HasSubstr("below 0"));
  EXPECT_THAT(refusal({on_host(0), on_host(1, {}, {.compute = Compute::cpu})}),
              HasSubstr("rank 1 (host h1)"));
}

TEST(RankFactsText, ComesBackAsItWas) {
  const RankFacts facts{.host = "gpu-07.cluster",
                        .host_leader = 12,
                        .gpus = {"GPU-1", "GPU-2"},
                        .options = {.ranks_per_machine = 3, .compute = Compute::cuda}};
  const RankFacts parsed = parse_facts(serialize(facts));
  EXPECT_EQ(parsed.host, facts.host);
  EXPECT_EQ(parsed.host_leader, 12);
  EXPECT_EQ(parsed.gpus, facts.gpus);
  EXPECT_EQ(parsed.options.ranks_per_machine, 3);
  EXPECT_EQ(parsed.options.compute, Compute::cuda);
  EXPECT_EQ(parsed.options.gpu, std::nullopt);
  EXPECT_EQ(parse_facts(serialize(on_host(0, {}, {.gpu = 5}))).options.gpu, 5);
  EXPECT_TRUE(parse_facts(serialize(on_host(0))).gpus.empty());
}

}  // namespace
}  // namespace strata::comm
