// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "strata/comm/reducer.hpp"
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

using Exchange = LaunchOrder::Exchange;

struct Steps {
  LaunchOrder::Run run;
  Count reduces_every = 1;
};

std::string launches(const Steps& steps, unsigned seed) {
  LaunchOrder order{Device()};
  const cuda::Stream stream;
  Launches launched;
  order.begin(steps.run);
  std::vector<std::thread> threads;
  const auto share = [&](Exchange kind, char name, int lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      const auto jitter_seed = static_cast<unsigned>(seed + 1 + threads.size());
      threads.emplace_back([&, kind, name, lanes, lane, jitter_seed] {
        Jitter jitter(jitter_seed);
        for (Count s = lane; s < steps.run.steps; s += lanes) {
          jitter();
          order.begin_exchange({kind, lane}, stream);
          launched.add(name, s);
          order.end_exchange({kind, lane}, stream);
        }
      });
    }
  };
  if (steps.run.samples) share(Exchange::sample, 'S', steps.run.sampled);
  if (steps.run.fetches) share(Exchange::fetch, 'F', steps.run.gathered);
  Jitter jitter(seed);
  for (Count s = 0; s < steps.run.steps; ++s) {
    jitter();
    if ((s + 1) % steps.reduces_every == 0) {
      order.begin_reduction(stream);
      launched.add('R', s);
      order.end_reduction(stream);
    }
    order.end_step();
  }
  for (std::thread& thread : threads) thread.join();
  return launched.text();
}

TEST(LaunchOrder, IsTheSameHoweverThreadsRun) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    ASSERT_EQ(launches({.run = {.steps = 4}}, seed), "F0 F1 R0 F2 R1 F3 R2 R3") << seed;
    ASSERT_EQ(launches({.run = {.steps = 3, .ahead = false}}, seed), "F0 R0 F1 R1 F2 R2") << seed;
    ASSERT_EQ(launches({.run = {.steps = 1}}, seed), "F0 R0") << seed;
    ASSERT_EQ(launches({.run = {.steps = 5}, .reduces_every = 2}, seed), "F0 F1 F2 R1 F3 F4 R3") << seed;
  }
}

TEST(LaunchOrder, OfBothExchangesIsTheSameHoweverThreadsRun) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    ASSERT_EQ(launches({.run = {.steps = 4, .samples = true}}, seed), "S0 S1 F0 S2 F1 R0 S3 F2 R1 F3 R2 R3")
        << seed;
    ASSERT_EQ(launches({.run = {.steps = 3, .ahead = false, .samples = true}}, seed),
              "S0 F0 R0 S1 F1 R1 S2 F2 R2")
        << seed;
    ASSERT_EQ(launches({.run = {.steps = 3, .samples = true, .fetches = false}}, seed), "S0 S1 S2 R0 R1 R2")
        << seed;
    ASSERT_EQ(launches({.run = {.steps = 1, .samples = true}}, seed), "S0 F0 R0") << seed;
    ASSERT_EQ(launches({.run = {.steps = 4, .samples = true}, .reduces_every = 2}, seed),
              "S0 S1 F0 S2 F1 S3 F2 R1 F3 R3")
        << seed;
  }
}

TEST(LaunchOrder, OfSeveralThreadsPerExchangeIsTheSameHoweverTheyRun) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    ASSERT_EQ(launches({.run = {.steps = 4, .samples = true, .sampled = 2}}, seed),
              "S0 S1 S2 F0 S3 F1 R0 F2 R1 F3 R2 R3")
        << seed;
    ASSERT_EQ(launches({.run = {.steps = 5, .samples = true, .sampled = 2, .gathered = 2}}, seed),
              "S0 S1 S2 F0 S3 F1 S4 F2 R0 F3 R1 F4 R2 R3 R4")
        << seed;
    ASSERT_EQ(launches({.run = {.steps = 4, .gathered = 3}}, seed), "F0 F1 F2 F3 R0 R1 R2 R3") << seed;
    ASSERT_EQ(launches({.run = {.steps = 3, .ahead = false, .samples = true, .sampled = 2}}, seed),
              "S0 F0 R0 S1 F1 R1 S2 F2 R2")
        << seed;
    ASSERT_EQ(launches({.run = {.steps = 2, .samples = true, .sampled = 4, .gathered = 3}}, seed),
              "S0 S1 F0 F1 R0 R1")
        << seed;
  }
}

// Two of ten steps are used, and the three that buffers had room for are sampled and fetched all the same.
TEST(LaunchOrder, KeepsTheOrderOfExchangesAfterTheLastReduction) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    LaunchOrder order{Device()};
    const cuda::Stream stream;
    Launches launched;
    order.begin({.steps = 10, .samples = true});
    const auto exchange = [&](Exchange kind, char name, unsigned jitter_seed) {
      Jitter jitter(jitter_seed);
      for (Count s = 0; s < 5; ++s) {
        jitter();
        order.begin_exchange({kind}, stream);
        launched.add(name, s);
        order.end_exchange({kind}, stream);
      }
    };
    std::thread samples(exchange, Exchange::sample, 'S', seed),
        fetches(exchange, Exchange::fetch, 'F', seed + 1);
    Jitter jitter(seed + 2);
    for (Count s = 0; s < 2; ++s) {
      jitter();
      order.begin_reduction(stream);
      launched.add('R', s);
      order.end_reduction(stream);
      order.end_step();
    }
    jitter();
    order.finish(5);
    samples.join();
    fetches.join();
    ASSERT_EQ(launched.text(), "S0 S1 F0 S2 F1 R0 S3 F2 R1 S4 F3 F4") << seed;
  }
}

TEST(LaunchOrder, FreesAReductionWhoseExchangeFailed) {
  LaunchOrder order{Device()};
  const cuda::Stream stream;
  order.begin({.steps = 2});
  std::thread failing([&] { order.open(); });
  order.begin_reduction(stream);
  order.end_reduction(stream);
  failing.join();
}

TEST(LaunchOrder, StartsAnewWithARunOfSteps) {
  LaunchOrder order{Device()};
  const cuda::Stream stream;
  for (int epoch = 0; epoch < 2; ++epoch) {
    order.begin({.steps = 1});
    order.begin_exchange({Exchange::fetch}, stream);
    order.end_exchange({Exchange::fetch}, stream);
    order.begin_reduction(stream);
    order.end_reduction(stream);
    order.end_step();
    order.finish(1);
  }
}

}  // namespace
}  // namespace strata::comm
