// SPDX-License-Identifier: Apache-2.0
#include "report/memory_samples.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "strata/util/system.hpp"

namespace strata::train {
namespace {

using std::chrono::seconds;

const MemorySamples::Clock::time_point kStart{};

/// When samples were taken, in seconds since the start.
std::vector<double> times_of(const std::vector<MemorySample>& samples, double start) {
  std::vector<double> times;
  for (const MemorySample& sample : samples) times.push_back(sample.time - start);
  return times;
}

TEST(MemorySamples, AreTakenWhenTheIntervalIsOverAndAtTheEnd) {
  MemorySamples samples(Device{}, kStart);
  const double start = samples.take(kStart).front().time;
  for (int second = 1; second <= 12; ++second) samples.poll(kStart + seconds(second));
  const std::vector<double> times = times_of(samples.take(kStart + seconds(13)), start);
  ASSERT_EQ(times.size(), 3U);
  EXPECT_NEAR(times[0], 5, 1e-3);
  EXPECT_NEAR(times[1], 10, 1e-3);
  EXPECT_NEAR(times[2], 13, 1e-3);
  EXPECT_EQ(samples.take(kStart + seconds(14)).size(), 1U) << "those of the epoch before are gone";
}

TEST(MemorySamples, HoldWhatIsResidentAtTheirTime) {
  MemorySamples samples(Device{}, kStart);
  samples.poll(kStart + seconds(5));
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const std::vector<char> held(kBytes, 1);
  const auto taken = samples.take(kStart + seconds(6));
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_GE(taken[1].host_bytes - taken[0].host_bytes, static_cast<std::int64_t>(kBytes / 2));
  EXPECT_LE(taken[1].host_bytes, peak_resident_bytes());
  EXPECT_EQ(taken[1].device_bytes, 0);
}

TEST(MemorySamples, OfALongEpochAreFewAndSpreadEvenly) {
  MemorySamples samples(Device{}, kStart);
  constexpr int kSeconds = 3600;
  const double start = samples.take(kStart).front().time;
  for (int second = 1; second <= kSeconds; ++second) samples.poll(kStart + seconds(second));
  const std::vector<double> times = times_of(samples.take(kStart + seconds(kSeconds)), start);
  EXPECT_LE(times.size(), MemorySamples::kMost);
  EXPECT_GE(times.size(), MemorySamples::kMost / 2);
  for (std::size_t i = 1; i < times.size(); ++i)
    EXPECT_LE(times[i] - times[i - 1], 2.5 * kSeconds / MemorySamples::kMost) << i;
}

}  // namespace
}  // namespace strata::train
