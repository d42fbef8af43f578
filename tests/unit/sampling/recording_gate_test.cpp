// SPDX-License-Identifier: Apache-2.0
#include "strata/sampling/recording_gate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace std::chrono_literals;

namespace strata::sampling {
namespace {

using Recording = RecordingGate::Recording;

TEST(RecordingGate, IsOpenOnlyWhileTheCallerWaits) {
  RecordingGate gate;
  std::atomic<bool> waits = false, done = false;
  std::jthread sampler([&] {
    for (int i = 0; i < 200; ++i) {
      const Recording recording(&gate);
      EXPECT_TRUE(recording);
      EXPECT_TRUE(waits);
      std::this_thread::yield();
      EXPECT_TRUE(waits);
    }
    done = true;
  });
  while (!done) {
    waits = true;
    {
      const RecordingGate::Open open(gate);
      std::this_thread::sleep_for(10us);
    }
    waits = false;
  }
}

TEST(RecordingGate, LetsGoWhoWaitsWhenItIsGivenUp) {
  RecordingGate gate;
  std::jthread sampler([&] { EXPECT_FALSE(Recording(&gate)); });
  std::this_thread::sleep_for(1ms);
  gate.give_up();
  sampler.join();
  const RecordingGate::Open open(gate);
  EXPECT_TRUE(Recording(&gate));
}

TEST(RecordingGate, IsAlwaysOpenWhereThereIsNone) { EXPECT_TRUE(Recording(nullptr)); }

}  // namespace
}  // namespace strata::sampling
