// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, CoversTheRangeOnceInPiecesOfTheGrain) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.num_threads(), GetParam());
  for (const std::int64_t count : {0, 1, 5, 64, 1000}) {
    for (const std::int64_t grain : {1, 7, 64, 5000}) {
      std::vector<std::atomic<int>> visits(at(count));
      std::atomic<int> bad_pieces = 0;
      pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
        const bool whole = end - begin == grain || (end == count && end > begin && end - begin < grain);
        if (begin % grain != 0 || !whole) ++bad_pieces;
        for (std::int64_t i = begin; i < end; ++i) ++visits[at(i)];
      });
      EXPECT_EQ(bad_pieces, 0) << count << " by " << grain;
      for (std::size_t i = 0; i < visits.size(); ++i)
        ASSERT_EQ(visits[i], 1) << "element " << i << " of " << count << " by " << grain;
    }
  }
}

TEST_P(ThreadPoolTest, RethrowsAndGoesOn) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(pool.parallel_for(100, 1,
                                   [](std::int64_t begin, std::int64_t) {
                                     if (begin == 37) throw std::out_of_range("37");
                                   }),
                 std::out_of_range);
    std::atomic<std::int64_t> sum = 0;
    pool.parallel_for(100, 3, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sum += i;
    });
    ASSERT_EQ(sum, 4950);
  }
}

TEST_P(ThreadPoolTest, KeepsToALimitFromTheNextLoopOn) {
  ThreadPool pool(GetParam());
  for (const int limit : {1, 2, 3, 100, 0, 2, 100}) {
    pool.limit(limit);
    std::mutex mutex;
    std::set<std::thread::id> seen;
    std::atomic<int> pieces = 0;
    pool.parallel_for(64, 1, [&](std::int64_t, std::int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      ++pieces;
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(pieces, 64);
    EXPECT_LE(std::ssize(seen), std::clamp(limit, 1, GetParam())) << limit;
    EXPECT_EQ(pool.num_threads(), GetParam());
  }
}

TEST_P(ThreadPoolTest, TakesTurnsAmongCallers) {
  ThreadPool pool(GetParam());
  constexpr int kCallers = 4, kRounds = 50;
  std::vector<std::int64_t> sums(kCallers);
  {
    std::vector<std::jthread> callers;
    for (int c = 0; c < kCallers; ++c) {
      callers.emplace_back([&, c] {
        for (int r = 0; r < kRounds; ++r) {
          std::atomic<std::int64_t> sum = 0;
          pool.parallel_for(40 + c, 3, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
          sums[at(c)] += sum;
        }
      });
    }
  }
  for (int c = 0; c < kCallers; ++c) EXPECT_EQ(sums[at(c)], kRounds * (40 + c));
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 5));

TEST(ThreadPool, HasAThreadACoreByDefault) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_EQ(ThreadPool().num_threads(), available_cores());
}

TEST(ThreadPool, TreatsAGrainBelowOneAsOne) {
  ThreadPool pool(2);
  std::atomic<int> pieces = 0;
  pool.parallel_for(10, 0, [&](std::int64_t, std::int64_t) { ++pieces; });
  EXPECT_EQ(pieces, 10);
}

}  // namespace
}  // namespace strata
