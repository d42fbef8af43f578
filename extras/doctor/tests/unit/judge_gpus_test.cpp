// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "gpus.hpp"
#include "healthy_ranks.hpp"

namespace strata::doctor {
namespace {

using test::shortened;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kGigabytePerSecond = 1e9;

/// A host of four ranks with a GPU each, NVLink between all of them.
struct Host4 {
  std::vector<RankFacts> ranks = test::healthy_ranks(1, 4);
  std::vector<GpuFacts> gpus = std::vector<GpuFacts>(4);

  Host4() {
    for (RankFacts& rank : ranks) rank.gpu = "NVIDIA H200";
    for (GpuFacts& facts : gpus) facts.copy_alone = facts.copy_together = 50 * kGigabytePerSecond;
    for (int from = 0; from < 4; ++from)
      for (int to = 0; to < 4; ++to)
        if (from != to)
          gpus[0].links.push_back({.from = from,
                                   .to = to,
                                   .access = true,
                                   .path = "NV18",
                                   .bytes_per_second = 400 * kGigabytePerSecond});
    gpus[0].states = {{.uuid = "aa", .link_width = 16, .most_link_width = 16}};
  }
};

TEST(JudgeGpus, FindsNothingWhereAllAreAlike) {
  const Host4 host;
  EXPECT_THAT(judge_gpus(host.gpus, host.ranks), IsEmpty());
}

TEST(JudgeGpus, NamesThePairBelowItsLike) {
  Host4 host;
  host.gpus[0].links[4].bytes_per_second = 250 * kGigabytePerSecond;  // from 1 to 2
  const Findings findings = judge_gpus(host.gpus, host.ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("warning gpus h0 slow-links-of-gpus"));
  EXPECT_THAT(findings.front().message,
              HasSubstr("GPU 1 copies to GPU 2 at 250.00 GB/s, over NV18; 400.00 GB/s is usual"));
}

TEST(JudgeGpus, ComparesPairsOnlyWithTheirLike) {
  Host4 host;
  for (std::size_t i = 0; i < 6; ++i) {
    host.gpus[0].links[i].kind = 1;
    host.gpus[0].links[i].bytes_per_second = 20 * kGigabytePerSecond;
  }
  EXPECT_THAT(judge_gpus(host.gpus, host.ranks), IsEmpty());
}

TEST(JudgeGpus, ComparesPairsOnPcieOnlyWithThoseOfTheSamePath) {
  Host4 host;
  for (std::size_t i = 0; i < 6; ++i) {
    host.gpus[0].links[i].path = "SYS";
    host.gpus[0].links[i].bytes_per_second = 20 * kGigabytePerSecond;
  }
  EXPECT_THAT(judge_gpus(host.gpus, host.ranks), IsEmpty());
}

TEST(JudgeGpus, ComparesAPairThatHasLostNvlinksWithTheOthers) {
  Host4 host;
  host.gpus[0].links[4].path = "NV10";
  host.gpus[0].links[4].bytes_per_second = 220 * kGigabytePerSecond;
  const Findings findings = judge_gpus(host.gpus, host.ranks);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings.front().message, HasSubstr("over NV10; 400.00 GB/s is usual"));
}

TEST(JudgeGpus, NamesAPairWithoutAccessWhereOthersHaveIt) {
  Host4 host;
  host.gpus[0].links[0].access = false;
  host.gpus[0].links[0].bytes_per_second = 0;
  EXPECT_THAT(shortened(judge_gpus(host.gpus, host.ranks)),
              ElementsAre("warning gpus h0 slow-links-of-gpus"));
}

TEST(JudgeGpus, NotesOnceThatNoPairHasAccess) {
  Host4 host;
  for (cuda::PeerLink& link : host.gpus[0].links) link.access = false;
  EXPECT_THAT(shortened(judge_gpus(host.gpus, host.ranks)), ElementsAre("note gpus h0 slow-links-of-gpus"));
}

TEST(JudgeGpus, SeesASlowWayFromTheHostAndASharedOne) {
  Host4 host;
  host.gpus[1].copy_alone = 25 * kGigabytePerSecond;
  host.gpus[2].copy_together = 20 * kGigabytePerSecond;
  const Findings findings = judge_gpus(host.gpus, host.ranks);
  EXPECT_THAT(shortened(findings),
              ElementsAre("warning gpus h0 slow-links-of-gpus", "note gpus h0 slow-links-of-gpus"));
  EXPECT_THAT(findings[0].message, HasSubstr("rank 1"));
  EXPECT_THAT(findings[1].message, HasSubstr("rank 2"));
}

TEST(JudgeGpus, SeesErrorsHeatAndLostLanes) {
  Host4 host;
  host.gpus[0].states = {{.uuid = "aa", .uncorrected_errors = 3},
                         {.uuid = "bb", .held_back = 0x40},
                         {.uuid = "cc", .held_back = 0x05},
                         {.uuid = "dd", .link_width = 8, .most_link_width = 16}};
  host.gpus[0].driver_messages = {"Xid (PCI:0000:3b:00): 79, pid=1"};
  const Findings findings = judge_gpus(host.gpus, host.ranks);
  EXPECT_THAT(shortened(findings),
              ElementsAre("warning gpus h0 errors-of-gpus", "warning gpus h0 gpus-that-are-held-back",
                          "note gpus h0 gpus-that-are-held-back", "warning gpus h0 slow-links-of-gpus",
                          "warning gpus h0 errors-of-gpus"));
  EXPECT_THAT(findings.back().message, HasSubstr("79"));
}

TEST(ParseStates, ReadsWhatNvidiaSmiPrints) {
  const auto states = parse_states(
      "GPU-2B5C01A0-0000-1111-2222-333344445555, 2, 8, 16\nGPU-ffff01a0-0000-1111-2222-333344445555, [N/A], "
      "16, 16\n",
      "GPU-2b5c01a0-0000-1111-2222-333344445555, 0x0000000000000044\n");
  ASSERT_EQ(states.size(), 2U);
  EXPECT_EQ(states[0].uuid, "2b5c01a0000011112222333344445555");
  EXPECT_EQ(states[0].uncorrected_errors, 2);
  EXPECT_EQ(states[0].held_back, 0x44U);
  EXPECT_EQ(states[0].link_width, 8);
  EXPECT_EQ(states[0].most_link_width, 16);
  EXPECT_EQ(states[1].uncorrected_errors, 0);
  EXPECT_EQ(states[1].held_back, 0U);
  EXPECT_THAT(parse_states("NVIDIA-SMI has failed\n", "Field \"x\" is not a valid field to query.\n"),
              IsEmpty());
}

TEST(ParseDriverMessages, KeepsTheNewestXids) {
  std::string log = "<6>[ 1.0] eth0: link up\n";
  for (int i = 0; i < 7; ++i) log += fmt::format("<3>[ {}.0] NVRM: Xid (PCI:0000:3b:00): {}, pid=1\n", i, i);
  EXPECT_THAT(parse_driver_messages(log),
              ElementsAre(HasSubstr("3b:00): 2"), HasSubstr("): 3"), HasSubstr("): 4"), HasSubstr("): 5"),
                          HasSubstr("): 6")));
}

TEST(ParseNcclLog, FindsTransportsAndNetworks) {
  NcclFacts facts;
  parse_nccl_log(
      "n1:7:7 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.1.1.1<0>\n"
      "n1:7:7 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.1.1<0>\n"
      "n1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
      "n1:7:7 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
      "n1:7:7 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0(1)/GDRDMA\n",
      facts);
  EXPECT_THAT(facts.transports, ElementsAre("NET/IB", "P2P/CUMEM"));
  EXPECT_THAT(facts.networks, ElementsAre("IB mlx5_0:1", "IB mlx5_1:1", "Socket eth0:10.1.1.1"));
}

TEST(JudgeNccl, SeesSocketsWhereThereIsRdma) {
  auto ranks = test::healthy_ranks(2);
  std::vector<NcclFacts> nccl(2, {.all_reduce = 20 * kGigabytePerSecond, .transports = {"NET/Socket"}});
  EXPECT_THAT(judge_nccl(nccl, ranks), IsEmpty());
  ranks[1].interfaces = {{.name = "mlx5_0:1", .rdma = true}};
  EXPECT_THAT(shortened(judge_nccl(nccl, ranks)), ElementsAre("warning nccl h1 slow-nccl"));
}

TEST(JudgeNccl, SeesASlowSumBetweenHosts) {
  const std::vector<NcclFacts> nccl(2, {.all_reduce = 0.2 * kGigabytePerSecond});
  EXPECT_THAT(shortened(judge_nccl(nccl, test::healthy_ranks(2))), ElementsAre("warning nccl - slow-nccl"));
  EXPECT_THAT(judge_nccl(nccl, test::healthy_ranks(1, 2)), IsEmpty());
}

TEST(DescribeGpus, DrawsAMatrix) {
  const Host4 host;
  const auto lines = describe_gpus(host.gpus, host.ranks);
  EXPECT_THAT(lines.front(), HasSubstr("each by itself 50.0 50.0 50.0 50.0"));
  ASSERT_EQ(lines.size(), 1U + 2 + 4 + 1) << "a head of two lines, a line per GPU, and the path of all";
  EXPECT_THAT(lines[lines.size() - 2], HasSubstr("400"));
  EXPECT_EQ(lines.back(), "between all GPUs over NV18");
}

TEST(DescribeGpus, DrawsAMatrixOfPathsThatDiffer) {
  Host4 host;
  host.gpus[0].links[0].path = "SYS";  // from 0 to 1
  host.gpus[0].links[1].path = "";
  const auto lines = describe_gpus(host.gpus, host.ranks);
  ASSERT_EQ(lines.size(), 1U + 2 * (2 + 4));
  EXPECT_THAT(lines[7], HasSubstr("path from, to"));
  EXPECT_THAT(lines[9], ContainsRegex("^0 +- +SYS +\\? +NV18$"));
  EXPECT_THAT(lines[10], ContainsRegex("^1 +NV18 +- +NV18 +NV18$"));
}

TEST(DescribeGpus, SaysThatPathsAreNotKnown) {
  Host4 host;
  for (cuda::PeerLink& link : host.gpus[0].links) link.path.clear();
  EXPECT_THAT(describe_gpus(host.gpus, host.ranks).back(), HasSubstr("not known"));
}

}  // namespace
}  // namespace strata::doctor
