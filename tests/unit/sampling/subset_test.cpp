// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "choosers/subset_cpu.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {
namespace {

std::vector<std::uint64_t> first_positions(std::uint64_t size, std::uint64_t key, std::uint64_t count) {
  std::vector<std::uint64_t> result;
  for (std::uint64_t j = 0; j < count; ++j) result.push_back(shuffled(j, size, key));
  return result;
}

// Part files, checkpoints and results of others rely on these values.
TEST(Shuffled, KeepsItsValues) {
  EXPECT_THAT(first_positions(10, 42, 10), testing::ElementsAre(0, 7, 9, 2, 6, 4, 1, 8, 3, 5));
  EXPECT_THAT(first_positions(1000000, 7, 4), testing::ElementsAre(50120, 567064, 448997, 589906));
  EXPECT_THAT(first_positions((1ull << 39) + 5, 7, 2), testing::ElementsAre(537732482812, 117113865858));
}

TEST(Shuffled, PermutesEverySize) {
  for (std::uint64_t size = 1; size < 300; ++size) {
    auto positions = first_positions(size, mix64(size), size);
    std::sort(positions.begin(), positions.end());
    std::vector<std::uint64_t> all(size);
    std::iota(all.begin(), all.end(), 0);
    ASSERT_EQ(positions, all) << "size " << size;
  }
}

/// Floyd's algorithm, as its paper says it.
std::vector<std::uint32_t> floyd(const Subset& subset, int count) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t j = 0; j < static_cast<std::uint32_t>(count); ++j) {
    const std::uint32_t drawn = subset.draw(j);
    result.push_back(std::ranges::count(result, drawn) > 0 ? subset.first + j : drawn);
  }
  return result;
}

TEST(ChooseSubset, FollowsFloyd) {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::uint64_t random = mix64(i);
    const auto count = static_cast<int>(1 + random % Subset::kMaxCount);
    const std::uint64_t room = i % 3 == 0 ? 3 : i % 3 == 1 ? 100000 : 0xFFFFFF00ull;
    const auto size =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(count) + 1 + (random >> 20) % room);
    const Subset subset(size, count, mix64(random));
    std::vector<std::uint32_t> positions(at(count), 77);
    choose_subset(subset, count, positions.data());
    ASSERT_EQ(positions, floyd(subset, count)) << count << " of " << size;
  }
}

TEST(ChooseSubset, GivesDistinctPositions) {
  for (std::uint64_t key = 0; key < 2000; ++key) {
    std::vector<std::uint32_t> positions(20);
    choose_subset({21, 20, mix64(key)}, 20, positions.data());
    std::ranges::sort(positions);
    EXPECT_EQ(std::ranges::adjacent_find(positions), positions.end());
    EXPECT_LT(positions.back(), 21u);
  }
}

TEST(Subset, DrawsFromTheWholeRangeOfAHub) {
  constexpr std::int64_t kSize = 0xFFFFFFFF;
  double sum = 0;
  for (std::uint64_t key = 0; key < 10000; ++key) {
    sum += static_cast<double>(Subset(kSize, 1, mix64(key)).draw(0)) / static_cast<double>(kSize);
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);  // seven standard deviations
}

}  // namespace
}  // namespace strata::sampling
