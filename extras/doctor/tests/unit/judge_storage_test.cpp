// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <fstream>

#include "healthy_ranks.hpp"
#include "storage.hpp"
#include "strata/util/types.hpp"
#include "support/temporary_folder.hpp"

namespace strata::doctor {
namespace {

using test::healthy_ranks;
using test::shortened;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kGibi = std::int64_t{1} << 30;

std::vector<StorageFacts> same_parts(int ranks) {
  return std::vector<StorageFacts>(
      at(ranks),
      {.build_id = "b1", .digest = "d1", .part_bytes = 100 * kGibi, .bytes_per_second = 2e9, .direct = true});
}

TEST(JudgeStorage, FindsNothingWhereAllHostsSeeTheSame) {
  EXPECT_THAT(judge_storage(same_parts(4), healthy_ranks(4), "parts"), IsEmpty());
}

TEST(JudgeStorage, NamesTheHostWithOtherParts) {
  auto storage = same_parts(3);
  storage[2].digest = "d2";
  storage[2].build_id = "b2";
  const Findings findings = judge_storage(storage, healthy_ranks(3), "parts");
  EXPECT_THAT(shortened(findings), ElementsAre("failure storage h2 another-part-folder"));
  EXPECT_THAT(findings.front().message, HasSubstr("(build b2) than on most hosts"));
}

TEST(JudgeStorage, SaysWithWhomAHostAgreesNotAmongTwo) {
  auto storage = same_parts(2);
  storage[1].digest = "d2";
  EXPECT_THAT(judge_storage(storage, healthy_ranks(2), "parts").front().message,
              HasSubstr("than on host h0"));
}

TEST(JudgeStorage, NamesTheHostWithoutParts) {
  auto storage = same_parts(3);
  storage[1] = {.error = "parts/manifest.json: no such file"};
  const Findings findings = judge_storage(storage, healthy_ranks(3), "parts");
  EXPECT_THAT(shortened(findings), ElementsAre("failure storage h1 another-part-folder"));
  EXPECT_EQ(findings.front().message, storage[1].error);
  EXPECT_THAT(findings.front().action, HasSubstr("Copy the part folder"));
}

TEST(JudgeStorage, AdvisesNoCopyOfWhatNoHostHas) {
  const std::vector<StorageFacts> storage(2, {.error = "parts: no such directory"});
  const Findings findings = judge_storage(storage, healthy_ranks(2), "parts");
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings.front().action, "Name a whole folder that strata-partition build made.");
}

TEST(JudgeStorage, NamesRanksWhoseFileSystemDoesNotAnswer) {
  auto storage = same_parts(3);
  storage[1] = {.answered = false};
  const Findings findings = judge_storage(storage, healthy_ranks(3), "parts");
  EXPECT_THAT(shortened(findings), ElementsAre("failure storage h1 a-rank-that-does-not-answer"));
}

TEST(JudgeStorage, NamesTheHostThatReadsSlowly) {
  auto storage = same_parts(3);
  storage[0].bytes_per_second = 20e6;
  EXPECT_THAT(shortened(judge_storage(storage, healthy_ranks(3), "parts")),
              ElementsAre("warning storage h0 slow-storage"));
  for (StorageFacts& facts : storage) facts.part_bytes = 1 << 20;
  EXPECT_THAT(judge_storage(storage, healthy_ranks(3), "parts"), IsEmpty()) << "nobody waits for a megabyte";
}

TEST(JudgeOutput, SeesAFullAndAForbiddenFolder) {
  EXPECT_THAT(judge_output({.folder = "runs", .free_bytes = 50 * kGibi}, "h0"), IsEmpty());
  EXPECT_THAT(shortened(judge_output({.folder = "runs", .free_bytes = kGibi / 2}, "h0")),
              ElementsAre("warning storage h0 room-for-the-output"));
  EXPECT_THAT(shortened(judge_output({.folder = "runs", .writable = false, .free_bytes = 50 * kGibi}, "h0")),
              ElementsAre("failure storage h0 room-for-the-output"));
}

TEST(JudgeOutput, TellsAFileSystemThatDoesNotAnswerFromAForbiddenFolder) {
  const Findings findings = judge_output({.folder = "runs", .answered = false}, "h0");
  EXPECT_THAT(shortened(findings), ElementsAre("failure storage h0 a-rank-that-does-not-answer"));
  EXPECT_THAT(findings.front().message, HasSubstr("runs did not answer"));
}

TEST(JudgeOutput, SeesAFileWhereTheFolderWouldBe) {
  const strata::test::TemporaryFolder folder;
  std::ofstream(folder / "afile") << "x";
  const Findings findings = judge_output(look_at_output(folder / "afile/run/first"), "h0");
  EXPECT_THAT(shortened(findings), ElementsAre("failure storage h0 room-for-the-output"));
  EXPECT_THAT(findings.front().message, HasSubstr("afile is a file"));
}

TEST(JudgePlan, FailsWhatDoesNotFit) {
  EXPECT_THAT(judge_plan(true), IsEmpty());
  EXPECT_THAT(shortened(judge_plan(false)), ElementsAre("failure plan - a-plan-that-does-not-fit"));
}

TEST(LookAtParts, SaysWhatIsWrong) {
  const strata::test::TemporaryFolder folder;
  EXPECT_THAT(look_at_parts(folder.path()).error, HasSubstr("manifest.json"));
  EXPECT_THAT(look_at_parts(folder / "none").error, HasSubstr("none"));
}

TEST(LookAtOutput, TakesTheNearestFolderThatExists) {
  const strata::test::TemporaryFolder folder;
  const OutputFacts facts = look_at_output(folder / "runs/first");
  EXPECT_EQ(facts.folder, folder.path());
  EXPECT_TRUE(facts.writable);
  EXPECT_GT(facts.free_bytes, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "it left something";
}

}  // namespace
}  // namespace strata::doctor
