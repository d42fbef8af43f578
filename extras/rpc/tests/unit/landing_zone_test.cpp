// SPDX-License-Identifier: Apache-2.0
#include "channels/landing_zone.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace strata::rpc {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 16;

struct alignas(64) Block {
  std::byte bytes[64];
};

class LandingZoneTest : public testing::Test {
 protected:
  std::vector<Block> blocks_ = std::vector<Block>(kBytes / sizeof(Block));
  std::span<std::byte> memory_{blocks_.front().bytes, kBytes};
  LandingZone zone_{memory_};
};

TEST_F(LandingZoneTest, GivesRoomsThatDoNotOverlap) {
  std::mt19937 random(1);
  struct Kept {
    std::size_t bytes;
    std::byte value;
  };
  std::map<std::size_t, Kept> rooms;
  int num_taken = 0, num_refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::size_t bytes = 1 + random() % 5000;
    const auto offset = zone_.take(bytes);
    if (offset) {
      ASSERT_EQ(*offset % LandingZone::kAlignment, 0U);
      ASSERT_LE(*offset + bytes, kBytes);
      ASSERT_FALSE(rooms.contains(*offset));
      const auto value = static_cast<std::byte>(random());
      std::fill_n(memory_.begin() + static_cast<std::ptrdiff_t>(*offset), bytes, value);
      rooms[*offset] = {bytes, value};
      ++num_taken;
    }
    num_refused += !offset;
    while (!rooms.empty() && (!offset || random() % 3 == 0)) {
      auto given = rooms.begin();
      std::advance(given, static_cast<std::ptrdiff_t>(random() % rooms.size()));
      const auto [at, kept] = *given;
      const auto written = memory_.subspan(at, kept.bytes);
      ASSERT_TRUE(std::ranges::all_of(written, [&](std::byte b) { return b == kept.value; }));
      LandingZone::give_back(memory_, at);
      rooms.erase(given);
      if (random() % 2 == 0) break;
    }
  }
  EXPECT_GT(num_taken, 3000);
  EXPECT_GT(num_refused, 10);
}

TEST_F(LandingZoneTest, UsesAllOfItAgain) {
  constexpr std::size_t kLargest = kBytes - 2 * LandingZone::kAlignment;
  EXPECT_FALSE(zone_.take(kLargest + 1));
  EXPECT_FALSE(zone_.take(~std::size_t{0}));
  for (int i = 0; i < 3; ++i) {
    const auto whole = zone_.take(kLargest);
    ASSERT_TRUE(whole);
    EXPECT_FALSE(zone_.take(1));
    LandingZone::give_back(memory_, *whole);
    std::vector<std::size_t> rooms;
    for (auto room = zone_.take(1000); room; room = zone_.take(1000)) rooms.push_back(*room);
    EXPECT_EQ(rooms.size(), (kBytes - LandingZone::kAlignment) / 1088);
    std::shuffle(rooms.begin(), rooms.end(), std::mt19937(static_cast<unsigned>(i)));
    for (const std::size_t room : rooms) LandingZone::give_back(memory_, room);
  }
}

TEST_F(LandingZoneTest, TakesRoomsBackFromOtherThreads) {
  constexpr int kThreads = 3, kRounds = 3000;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < kRounds; ++i) {
        const std::size_t bytes = 4 + random() % 3000;
        const auto room = zone_.take(bytes);
        if (!room) continue;
        const unsigned mark = static_cast<unsigned>(t * kRounds + i);
        std::memcpy(memory_.data() + *room, &mark, sizeof(mark));
        if (i % 200 == 0) std::this_thread::yield();
        unsigned found = 0;
        std::memcpy(&found, memory_.data() + *room, sizeof(found));
        ASSERT_EQ(found, mark);
        LandingZone::give_back(memory_, *room);
      }
    });
  }
  threads.clear();
  EXPECT_TRUE(zone_.take(kBytes - 2 * LandingZone::kAlignment));
}

}  // namespace
}  // namespace strata::rpc
