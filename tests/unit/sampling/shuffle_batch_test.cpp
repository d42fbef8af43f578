#include "shuffle_batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

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

TEST(ShuffleBatch, GivesTheValuesOfShuffled) {
  struct Request {
    std::uint64_t size, key;
    int count;
    std::size_t first;
  };
  ShuffleBatch batch;
  for (std::uint64_t round = 0; round < 50; ++round) {
    std::vector<Request> requests;
    batch.clear();
    for (std::uint64_t i = 0; i < 1 + round * 3; ++i) {
      const std::uint64_t random = mix64(round * 1000 + i);
      const std::uint64_t size = 2 + (random % (i % 7 == 0 ? 0xFFFFFFF0ull : 200));
      const int count = static_cast<int>(std::min<std::uint64_t>(size, (random >> 40) % 70));
      requests.push_back({size, mix64(random), count, 0});
      requests.back().first = batch.add(Shuffle(size, mix64(random)), count);
    }
    batch.run();
    for (const Request& r : requests) {
      for (int j = 0; j < r.count; ++j) {
        ASSERT_EQ(batch.positions()[r.first + static_cast<std::size_t>(j)],
                  shuffled(static_cast<std::uint64_t>(j), r.size, r.key))
            << "round " << round << ", slot " << j << " of size " << r.size;
      }
    }
  }
}

}  // namespace
}  // namespace strata::sampling
