// SPDX-License-Identifier: Apache-2.0
#include "strata/placement/cache_choice.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace strata::placement {
namespace {

constexpr double kMicro = 1e-6;
const RemoteReads kReads{.rows = 1000, .ask_seconds = 0.5 * kMicro, .find_seconds = 0.05 * kMicro};

CacheOption option(Count kept, double answered, double read_seconds = 0) {
  return {.kept = kept, .answered = answered, .read_seconds = read_seconds};
}

TEST(CacheSeconds, CountsWhatIsAskedForAndLookedUp) {
  EXPECT_DOUBLE_EQ(cache_seconds(kReads, {}), 500 * kMicro);
  EXPECT_DOUBLE_EQ(cache_seconds(kReads, option(10, 600)), 250 * kMicro);
  EXPECT_DOUBLE_EQ(cache_seconds(kReads, option(10, 80, 30 * kMicro)), 540 * kMicro);
}

TEST(ChooseCache, TakesWhatSavesTime) {
  const std::vector<CacheOption> options{{}, option(10, 600)};
  const CacheChoice choice = choose_cache(kReads, options);
  EXPECT_EQ(choice.option, 1u);
  EXPECT_DOUBLE_EQ(choice.seconds, 250 * kMicro);
  EXPECT_DOUBLE_EQ(choice.seconds_without, 500 * kMicro);
}

TEST(ChooseCache, TakesNoneThatAnswersTooLittleForItsLookUps) {
  EXPECT_EQ(choose_cache(kReads, std::vector<CacheOption>{{}, option(10, 80)}).option, 0u);
  EXPECT_EQ(choose_cache(kReads, std::vector<CacheOption>{{}, option(10, 110)}).option, 0u);  // saves 1 %
  EXPECT_EQ(choose_cache(kReads, std::vector<CacheOption>{{}, option(10, 130)}).option, 1u);  // saves 3 %
}

// All rows of this machine lie on GPUs, and those of a cache would lie in host memory.
TEST(ChooseCache, TakesNoneThatIsReadSlowerThanTheLink) {
  RemoteReads reads = kReads;
  reads.ask_seconds = 0.01 * kMicro;
  reads.find_seconds = 0.0002 * kMicro;
  const std::vector<CacheOption> options{{}, option(5, 300, 0.3 * kMicro), option(20, 900, 18 * kMicro)};
  EXPECT_EQ(choose_cache(reads, options).option, 1u);  // those that fit the GPUs
  reads.ask_seconds = 0.05 * kMicro;
  EXPECT_EQ(choose_cache(reads, options).option, 2u);  // the link is slower than the host
}

TEST(ChooseCache, TakesTheSmallerOfEqualOnes) {
  const std::vector<CacheOption> options{{}, option(10, 600), option(20, 600)};
  EXPECT_EQ(choose_cache(kReads, options).option, 1u);
}

TEST(ChooseCache, TakesNoneWhereNothingIsRead) {
  EXPECT_EQ(choose_cache({}, std::vector<CacheOption>{{}, option(10, 0)}).option, 0u);
  EXPECT_EQ(choose_cache(kReads, std::vector<CacheOption>(1)).option, 0u);
}

}  // namespace
}  // namespace strata::placement
