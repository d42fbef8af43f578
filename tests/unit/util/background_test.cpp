// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>

#include "strata/util/threads.hpp"

namespace strata {
namespace {

using std::chrono::milliseconds;

TEST(Background, ReturnsWhatTheWorkReturned) {
  Background<int> work([] { return 7; });
  while (!work.wait_for(milliseconds(10))) continue;
  EXPECT_EQ(work.get(), 7);
}

TEST(Background, ThrowsWhatTheWorkThrew) {
  Background<int> work([]() -> int { throw std::out_of_range("too far"); });
  EXPECT_THROW(work.get(), std::out_of_range);
}

TEST(Background, TellsThatTheWorkGoesOn) {
  std::promise<void> gate;
  Background<int> work([open = gate.get_future().share()] {
    open.wait();
    return 1;
  });
  EXPECT_FALSE(work.wait_for(milliseconds(20)));
  gate.set_value();
  EXPECT_EQ(work.get(), 1);
}

TEST(Background, GoesOnWithoutItsOwner) {
  const auto gate = std::make_shared<std::promise<void>>();
  const auto ended = std::make_shared<std::promise<int>>();
  {
    const Background<int> work([open = gate->get_future().share(), ended] {
      open.wait();
      ended->set_value(5);
      return 5;
    });
  }
  gate->set_value();
  EXPECT_EQ(ended->get_future().get(), 5);
}

TEST(Background, LeavesSignalsToOtherThreads) {
  Background<bool> work([] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return sigismember(&blocked, SIGINT) == 1;
  });
  EXPECT_TRUE(work.get());
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 0);
}

}  // namespace
}  // namespace strata
