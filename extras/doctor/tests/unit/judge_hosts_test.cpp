// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "healthy_ranks.hpp"
#include "judge.hpp"
#include "strata/util/types.hpp"

namespace strata::doctor {
namespace {

using test::healthy_ranks;
using test::shortened;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kMebi = std::int64_t{1} << 20;

TEST(JudgeHosts, FindsNothingWhereAllIsWell) {
  const auto ranks = healthy_ranks(3, 2);
  EXPECT_THAT(judge_versions(ranks), IsEmpty());
  EXPECT_THAT(judge_ranks(ranks), IsEmpty());
  EXPECT_THAT(judge_limits(ranks), IsEmpty());
  EXPECT_THAT(judge_numa(ranks), IsEmpty());
}

TEST(JudgeVersions, NamesTheHostThatDiffers) {
  auto ranks = healthy_ranks(3);
  ranks[1].versions["Strata"] = "Strata 2";
  const Findings findings = judge_versions(ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("failure versions h1 different-versions"));
  EXPECT_THAT(findings.front().message, HasSubstr("Strata 2"));
  EXPECT_THAT(findings.front().message, HasSubstr("most ranks have Strata 1"));
}

TEST(JudgeVersions, TakesTheFirstHostsSideAmongTwo) {
  auto ranks = healthy_ranks(2);
  ranks[1].versions["MPI"] = "Open MPI v5.0.0";
  const Findings findings = judge_versions(ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("failure versions h1 different-versions"));
  EXPECT_THAT(findings.front().message, HasSubstr("Open MPI v5.0.0; host h0 has "));
}

TEST(JudgeVersions, SeesThatALibraryIsMissing) {
  auto ranks = healthy_ranks(3);
  for (const int r : {0, 1}) ranks[at(r)].versions["CUDA driver"] = "CUDA driver 13.0";
  const Findings findings = judge_versions(ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("warning versions h2 different-versions"));
  EXPECT_THAT(findings.front().message, HasSubstr("no CUDA driver"));
}

TEST(JudgeVersions, OnlyNotesAnotherGlibc) {
  auto ranks = healthy_ranks(2);
  ranks[1].versions["glibc"] = "glibc 2.39";
  EXPECT_EQ(exit_code(judge_versions(ranks)), 0);
}

TEST(JudgeRanks, SeesOtherProgramsOnTheProcessors) {
  auto ranks = healthy_ranks(2, 2);
  for (RankFacts& rank : ranks) {
    rank.busy = {0.9, 0.5, 0.2, 0.2};
    rank.own_cores = 0.75;
  }
  EXPECT_THAT(judge_ranks(ranks), IsEmpty()) << "1.8 of four, 1.5 of them of the two ranks themselves";
  ranks[2].busy = {1, 0.5, 0.6, 0.2};
  ranks[3].busy = {1, 1, 1, 0.1};
  const Findings findings = judge_ranks(ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("warning ranks h1 busy-processors"));
  EXPECT_THAT(findings.front().message, HasSubstr("1.7 of the 4 processors"));
  for (RankFacts& rank : ranks) rank.busy.clear();
  EXPECT_THAT(judge_ranks(ranks), IsEmpty()) << "the kernel does not tell";
}

TEST(JudgeRanks, SeesMoreRanksThanProcessors) {
  EXPECT_THAT(shortened(judge_ranks(healthy_ranks(1, 5))),
              ElementsAre("warning ranks h0 more-ranks-than-processors"));
}

TEST(JudgeRanks, TellsACpusetFromASmallHost) {
  auto ranks = healthy_ranks(1, 2);
  for (RankFacts& rank : ranks) rank.processors = {0};
  EXPECT_THAT(shortened(judge_ranks(ranks)), ElementsAre("warning ranks h0 ranks-bound-to-few-processors"));
}

TEST(JudgeRanks, SeesRanksBoundToOneProcessorOfMany) {
  auto ranks = healthy_ranks(1, 2);
  for (std::size_t r = 0; r < 2; ++r) {
    ranks[r].host_processors = 32;
    ranks[r].processors = {static_cast<int>(r)};
  }
  EXPECT_THAT(shortened(judge_ranks(ranks)), ElementsAre("warning ranks h0 ranks-bound-to-few-processors"));
}

TEST(JudgeRanks, SeesLittleMemory) {
  auto ranks = healthy_ranks(2);
  ranks[1].memory_bytes = 900 * kMebi;
  const Findings findings = judge_ranks(ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("warning ranks h1 little-memory-per-rank"));
  EXPECT_THAT(findings.front().message, HasSubstr("900.0 MiB"));
}

TEST(JudgeRanks, SeesWhoSharesAGpuByItsUuid) {
  auto ranks = healthy_ranks(1, 3);
  for (RankFacts& rank : ranks) {
    rank.visible_gpus = 2;
    rank.gpu_uuid = "aa";
  }
  ranks[1].gpu_uuid = "bb";
  const Findings findings = judge_ranks(ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("warning ranks h0 ranks-that-share-a-gpu"));
  EXPECT_THAT(findings.front().message, HasSubstr("ranks 0, 2 (host h0) share the GPU aa"));
}

TEST(JudgeRanks, SeesGpusThatNoRankUses) {
  auto ranks = healthy_ranks(2);
  ranks[0].visible_gpus = ranks[0].driver_gpus = 8;
  ranks[0].gpu_uuid = "aa";
  ranks[1].driver_gpus = 8;
  EXPECT_THAT(shortened(judge_ranks(ranks)),
              ElementsAre("note ranks h0 gpus-that-no-rank-uses", "warning ranks h1 gpus-that-no-rank-uses"));
}

TEST(JudgeLimits, NamesTheHostThatMayLockLess) {
  auto ranks = healthy_ranks(3);
  ranks[1].locked_bytes = 64 << 10;
  const Findings findings = judge_limits(ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("warning limits h1 locked-memory"));
  EXPECT_THAT(findings.front().message, HasSubstr("64.0 KiB"));
  EXPECT_THAT(findings.front().message, HasSubstr("unlimited"));
}

TEST(JudgeLimits, AllowsALowLimitThatAllHostsHave) {
  auto ranks = healthy_ranks(3);
  for (RankFacts& rank : ranks) rank.locked_bytes = 8 * kMebi;
  EXPECT_THAT(judge_limits(ranks), IsEmpty());
}

TEST(JudgeLimits, FailsWhereNetworkCardsNeedLockedMemory) {
  auto ranks = healthy_ranks(2);
  for (RankFacts& rank : ranks) {
    rank.locked_bytes = 8 * kMebi;
    rank.interfaces = {{.name = "mlx5_0:1", .rdma = true}};
  }
  EXPECT_THAT(shortened(judge_limits(ranks)),
              ElementsAre("failure limits h0 locked-memory", "failure limits h1 locked-memory"));
}

TEST(JudgeLimits, SeesTooFewFiles) {
  auto ranks = healthy_ranks(2);
  ranks[1].open_files = 128;
  EXPECT_THAT(shortened(judge_limits(ranks)), ElementsAre("failure limits h1 open-files"));
}

TEST(JudgeLimits, SeesASmallShmOfSeveralRanks) {
  auto ranks = healthy_ranks(1, 8);
  for (RankFacts& rank : ranks) rank.shm_free_bytes = 64 * kMebi;
  EXPECT_THAT(shortened(judge_limits(ranks)), ElementsAre("failure limits h0 shared-memory"));
  ranks.resize(1);
  EXPECT_THAT(judge_limits(ranks), IsEmpty());
}

TEST(JudgeLimits, SeesRanksInContainersOfTheirOwn) {
  auto ranks = healthy_ranks(1, 2);
  ranks[1].namespaces["pid"] = "pid:[2]";
  EXPECT_THAT(shortened(judge_limits(ranks)), ElementsAre("warning limits h0 ranks-in-separate-containers"));
}

TEST(JudgeLimits, SeesSettingsOfTheKernel) {
  auto ranks = healthy_ranks(3);
  ranks[0].huge_free_bytes = ranks[0].host_memory_bytes / 2;
  ranks[1].overcommit = 2;
  ranks[2].huge_pages = "never";
  EXPECT_THAT(shortened(judge_limits(ranks)),
              ElementsAre("warning limits h0 reserved-huge-pages", "warning limits h1 memory-overcommit",
                          "note limits h2 transparent-huge-pages"));
}

TEST(JudgeNuma, SeesARankThatMayNotRunNearItsGpu) {
  auto ranks = healthy_ranks(1, 2);
  for (RankFacts& rank : ranks) {
    rank.gpu_node = 1;
    rank.node_processors = {3, 4, 5};
  }
  ranks[1].processors = {0, 1};
  const Findings findings = judge_numa(ranks);
  EXPECT_THAT(shortened(findings), ElementsAre("warning numa h0 ranks-far-from-their-gpu"));
  EXPECT_THAT(findings.front().message, HasSubstr("rank 1"));
}

TEST(NoAnswer, NamesRanksAndHosts) {
  const Finding finding = no_answer("storage", {2}, healthy_ranks(3), "reading parts");
  EXPECT_EQ(finding.host, "h2");
  EXPECT_THAT(finding.message, HasSubstr("rank 2 (host h2) did not answer: reading parts"));
  EXPECT_THAT(no_answer("network", {1, 2}, {}, "no message").message, HasSubstr("ranks 1, 2 did not"));
}

}  // namespace
}  // namespace strata::doctor
