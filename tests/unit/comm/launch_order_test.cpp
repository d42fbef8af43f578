// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/launch_order.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "strata/cuda/stream.hpp"

namespace strata::comm {
namespace {

/// What two threads launched, in order: "E0 E1 R0 ...".
class Launches {
 public:
  void add(char kind, Count step) {
    const std::lock_guard lock(mutex_);
    text_ += (text_.empty() ? "" : " ") + std::string(1, kind) + std::to_string(step);
  }
  const std::string& text() const { return text_; }

 private:
  std::mutex mutex_;
  std::string text_;
};

/// Sleeps now and then, so that either thread is early.
class Jitter {
 public:
  explicit Jitter(unsigned seed) : random_(seed) {}
  void operator()() {
    if (random_() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
  }

 private:
  std::mt19937 random_;
};

struct Steps {
  Count steps = 0, lookahead = 0;
  Count reduces_every = 1;
};

std::string launches(const Steps& steps, unsigned seed) {
  LaunchOrder order{Device()};
  const cuda::Stream stream;
  Launches launched;
  order.begin(steps.steps, steps.lookahead);
  std::thread exchanges([&] {
    Jitter jitter(seed);
    for (Count s = 0; s < steps.steps; ++s) {
      jitter();
      order.begin_exchange(stream);
      launched.add('E', s);
      order.end_exchange(stream);
    }
  });
  Jitter jitter(seed + 1);
  for (Count s = 0; s < steps.steps; ++s) {
    jitter();
    if ((s + 1) % steps.reduces_every == 0) {
      order.begin_reduction(stream);
      launched.add('R', s);
      order.end_reduction(stream);
    }
    order.end_step();
  }
  exchanges.join();
  return launched.text();
}

TEST(LaunchOrder, IsTheSameHoweverThreadsRun) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    ASSERT_EQ(launches({4, 1}, seed), "E0 E1 R0 E2 R1 E3 R2 R3") << seed;
    ASSERT_EQ(launches({3, 0}, seed), "E0 R0 E1 R1 E2 R2") << seed;
    ASSERT_EQ(launches({1, 1}, seed), "E0 R0") << seed;
    ASSERT_EQ(launches({5, 1, 2}, seed), "E0 E1 E2 R1 E3 E4 R3") << seed;
  }
}

TEST(LaunchOrder, LetsExchangesGoOnAfterTheLastReduction) {
  LaunchOrder order{Device()};
  const cuda::Stream stream;
  order.begin(10, 1);
  Count exchanged = 0;
  std::thread exchanges([&] {
    for (; exchanged < 4; ++exchanged) {
      order.begin_exchange(stream);
      order.end_exchange(stream);
    }
  });
  order.begin_reduction(stream);
  order.end_reduction(stream);
  order.end_step();
  order.open();
  exchanges.join();
  EXPECT_EQ(exchanged, 4);
}

TEST(LaunchOrder, FreesAReductionWhoseExchangeFailed) {
  LaunchOrder order{Device()};
  const cuda::Stream stream;
  order.begin(2, 1);
  std::thread failing([&] { order.open(); });
  order.begin_reduction(stream);
  order.end_reduction(stream);
  failing.join();
}

TEST(LaunchOrder, StartsAnewWithARunOfSteps) {
  LaunchOrder order{Device()};
  const cuda::Stream stream;
  for (int epoch = 0; epoch < 2; ++epoch) {
    order.begin(1, 1);
    order.begin_exchange(stream);
    order.end_exchange(stream);
    order.begin_reduction(stream);
    order.end_reduction(stream);
    order.end_step();
    order.open();
  }
}

}  // namespace
}  // namespace strata::comm
