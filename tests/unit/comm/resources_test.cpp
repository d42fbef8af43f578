// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "topology/rank_limits.hpp"
#include "topology/topology.hpp"

namespace strata::comm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Processors = std::vector<int>;

Processors from(int first, int count) {
  Processors processors(at(count));
  std::iota(processors.begin(), processors.end(), first);
  return processors;
}

/// Ranks that a launcher started on hosts, in their order.
class Launch {
 public:
  explicit Launch(int ranks_per_machine = 0) : options_{.ranks_per_machine = ranks_per_machine} {}

  struct Rank {
    int host = 0;  ///< the lowest rank there
    Processors processors = {};
    std::vector<std::string> groups = {"job"};
    std::vector<HostLimits::CpuQuota> quotas = {};
    std::vector<std::string> gpus = {};
  };
  Launch& add(const Rank& rank) {
    facts_.push_back({.host = "h" + std::to_string(rank.host),
                      .host_leader = rank.host,
                      .gpus = rank.gpus,
                      .options = options_});
    limits_.push_back({.processors = rank.processors, .groups = rank.groups, .quotas = rank.quotas});
    return *this;
  }
  std::vector<Resources> resources() const { return divide(limits_, arrange(facts_)); }

 private:
  TopologyOptions options_;
  std::vector<RankFacts> facts_;
  std::vector<RankLimits> limits_;
};

/// What every rank has, if they have the same.
int cores_of_each(const std::vector<Resources>& ranks) {
  for (const Resources& rank : ranks) {
    if (rank.cores != ranks.front().cores) return -1;
  }
  return ranks.front().cores;
}

// The table of docs/clusters.md: 4 ranks on a host of 16 processors.

TEST(CoresOfARank, BoundToCores) {
  Launch launch;
  for (int r = 0; r < 4; ++r) launch.add({.processors = from(4 * r, 4)});
  const auto ranks = launch.resources();
  EXPECT_EQ(cores_of_each(ranks), 4);
  EXPECT_EQ(ranks[1].cores_alone, 4) << "the processors of the others are not its to run on";
  EXPECT_THAT(ranks[1].own_processors, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(ranks[1].host_ranks, 4);
}

TEST(CoresOfARank, BoundToSockets) {
  Launch launch;
  for (int r = 0; r < 4; ++r) launch.add({.processors = from(r % 2 * 8, 8)});
  const auto ranks = launch.resources();
  EXPECT_EQ(cores_of_each(ranks), 4);
  EXPECT_EQ(ranks[3].cores_alone, 8);
  EXPECT_THAT(ranks[0].own_processors, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ranks[2].own_processors, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(ranks[3].own_processors, ElementsAre(12, 13, 14, 15));
}

TEST(CoresOfARank, BoundToSocketsOfUnevenLoad) {
  Launch launch;
  for (int r = 0; r < 3; ++r) launch.add({.processors = from(r == 0 ? 0 : 8, 8)});
  const auto ranks = launch.resources();
  EXPECT_EQ(ranks[0].cores, 8);
  EXPECT_EQ(ranks[1].cores, 4);
  EXPECT_EQ(ranks[2].cores, 4);
}

TEST(CoresOfARank, Unbound) {
  Launch launch;
  for (int r = 0; r < 4; ++r) launch.add({.processors = from(0, 16)});
  const auto ranks = launch.resources();
  EXPECT_EQ(cores_of_each(ranks), 4);
  EXPECT_EQ(ranks[2].cores_alone, 16);
  EXPECT_THAT(ranks[2].own_processors, ElementsAre(8, 9, 10, 11));
}

TEST(CoresOfARank, UnboundWithProcessorsOfAnAllocation) {
  const Processors allocated{3, 5, 7, 9, 11};
  const auto ranks = Launch().add({.processors = allocated}).add({.processors = allocated}).resources();
  EXPECT_EQ(cores_of_each(ranks), 2);
  EXPECT_THAT(ranks[0].own_processors, ElementsAre(3, 5));
  EXPECT_THAT(ranks[1].own_processors, ElementsAre(7, 9));
}

TEST(CoresOfARank, InVirtualMachines) {
  Launch launch(2);
  for (int r = 0; r < 4; ++r) launch.add({.processors = from(0, 16)});
  const auto ranks = launch.resources();
  EXPECT_EQ(cores_of_each(ranks), 4);
  EXPECT_EQ(ranks[2].cores_alone, 8) << "the first rank of the other machine works, too";
  EXPECT_THAT(ranks[3].own_processors, ElementsAre(12, 13, 14, 15));
}

TEST(CoresOfARank, WithMoreRanksThanProcessors) {
  Launch launch;
  for (int r = 0; r < 4; ++r) launch.add({.processors = from(0, 2)});
  const auto ranks = launch.resources();
  EXPECT_EQ(cores_of_each(ranks), 1);
  EXPECT_THAT(ranks[0].own_processors, IsEmpty());
}

TEST(CoresOfARank, WithAQuotaOfTheirCommonGroup) {
  Launch launch;
  for (int r = 0; r < 4; ++r)
    launch.add(
        {.processors = from(0, 16), .groups = {"job", "slice"}, .quotas = {{"job", 8}, {"slice", 100}}});
  const auto ranks = launch.resources();
  EXPECT_EQ(cores_of_each(ranks), 2);
  EXPECT_EQ(ranks[0].cores_alone, 8);
  EXPECT_THAT(ranks[0].own_processors, IsEmpty()) << "the scheduler knows where the others run";
}

TEST(CoresOfARank, WithAQuotaOfEachContainer) {
  Launch launch;
  for (int r = 0; r < 4; ++r) {
    const std::string own = "container" + std::to_string(r);
    launch.add({.processors = from(0, 16), .groups = {own, "pod"}, .quotas = {{own, 3}, {"pod", 20}}});
  }
  EXPECT_EQ(cores_of_each(launch.resources()), 3);
}

TEST(CoresOfARank, WithMasksThatOverlapInPart) {
  const auto ranks = Launch().add({.processors = from(0, 8)}).add({.processors = from(4, 8)}).resources();
  EXPECT_EQ(ranks[0].cores, 6);
  EXPECT_EQ(ranks[1].cores, 6);
  EXPECT_THAT(ranks[0].own_processors, IsEmpty());
}

TEST(CoresOfARank, AreThoseOfItsHostAlone) {
  Launch launch;
  for (int r = 0; r < 4; ++r) launch.add({.host = r < 1 ? 0 : 1, .processors = from(0, 12)});
  const auto ranks = launch.resources();
  EXPECT_EQ(ranks[0].cores, 12);
  EXPECT_EQ(ranks[0].host_ranks, 1);
  EXPECT_EQ(ranks[1].cores, 4);
  EXPECT_EQ(ranks[3].host_ranks, 3);
}

TEST(MemoryOfARank, IsDividedAmongTheRanksThatALimitHolds) {
  Launch launch(2);
  for (int r = 0; r < 4; ++r)
    launch.add({.processors = from(0, 16), .groups = {"task" + std::to_string(r), "job"}});
  const auto sharers = launch.resources()[2].sharers;
  EXPECT_EQ(sharers.at("").of_host, 4);
  EXPECT_EQ(sharers.at("").of_machine, 2);
  EXPECT_EQ(sharers.at("job").of_host, 4);
  EXPECT_EQ(sharers.at("job").of_machine, 2);
  EXPECT_EQ(sharers.at("task2").of_host, 1);
  EXPECT_EQ(sharers.at("task2").of_machine, 1);
}

TEST(MemoryOfARank, IsTheLeastShare) {
  Resources rank;
  rank.sharers = {{"", {.of_host = 4, .of_machine = 2}},
                  {"job", {.of_host = 2, .of_machine = 2}},
                  {"task", {.of_host = 1, .of_machine = 1}}};
  const auto expect_free = [&](const std::vector<HostLimits::FreeMemory>& limits, std::int64_t share,
                               std::int64_t most) {
    const Resources::FreeMemory free = rank.share_of(limits);
    EXPECT_EQ(free.share_bytes, share);
    EXPECT_EQ(free.most_bytes, most);
  };
  expect_free({{"", 4000}}, 1000, 2000);
  expect_free({{"", 4000}, {"job", 1000}}, 500, 500);
  expect_free({{"", 4000}, {"job", 3000}, {"task", 200}}, 200, 200);
  expect_free({{"", 4000}, {"unknown", 400}}, 100, 200);
}

TEST(GpuOfARank, IsSharedWithAllThatDriveIt) {
  Launch launch(1);  // machines of their own share it all the same
  launch.add({.gpus = {"a", "b"}}).add({.gpus = {"a", "b"}}).add({.gpus = {"a", "b"}}).add({});
  const auto ranks = launch.resources();
  EXPECT_THAT(ranks[0].gpu_ranks, ElementsAre(0, 2));
  EXPECT_THAT(ranks[1].gpu_ranks, ElementsAre(1));
  EXPECT_EQ(ranks[2].gpu_sharers(), 2);
  EXPECT_EQ(ranks[3].gpu_sharers(), 0);
}

TEST(RankLimitsText, ComesBackAsItWas) {
  const RankLimits limits{
      .processors = {0, 7, 200}, .groups = {"29:17", "29:1"}, .quotas = {{"29:17", 2.5}, {"29:1", 1.0 / 3}}};
  const RankLimits parsed = parse_limits(serialize(limits));
  EXPECT_EQ(parsed.processors, limits.processors);
  EXPECT_EQ(parsed.groups, limits.groups);
  ASSERT_EQ(parsed.quotas.size(), 2u);
  EXPECT_EQ(parsed.quotas[1].group, "29:1");
  EXPECT_EQ(parsed.quotas[1].cores, 1.0 / 3);
  EXPECT_TRUE(parse_limits(serialize(RankLimits())).groups.empty());
}

TEST(ResourcesOfAProcess, AreThoseOfTheHost) {
  const Resources process = Resources::of_process();
  const HostLimits limits;
  EXPECT_EQ(process.cores, limits.cores());
  EXPECT_EQ(process.cores_alone, limits.cores());
  EXPECT_EQ(process.host_ranks, 1);
  const Resources::FreeMemory free = process.free_memory();
  EXPECT_GT(free.share_bytes, 0);
  EXPECT_LE(free.share_bytes, std::int64_t{1} << 50);
}

}  // namespace
}  // namespace strata::comm
