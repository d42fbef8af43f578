// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

#include "strata/util/threads.hpp"

namespace strata {
namespace {

TEST(Worker, WorksBesideItsOwner) {
  Worker worker;
  std::atomic<bool> owner_went_on = false;
  worker.start([&] {
    while (!owner_went_on) std::this_thread::yield();
  });
  EXPECT_TRUE(worker.busy());
  owner_went_on = true;
  worker.wait();
  EXPECT_FALSE(worker.busy());
}

TEST(Worker, DoesAllItsWorkOnOneThread) {
  Worker worker;
  std::set<std::thread::id> threads;
  int done = 0;
  for (int i = 0; i < 100; ++i) {
    worker.start([&] {
      threads.insert(std::this_thread::get_id());
      ++done;
    });
    worker.wait();
    EXPECT_EQ(done, i + 1);
  }
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_NE(*threads.begin(), std::this_thread::get_id());
}

TEST(Worker, PassesOnWhatItsWorkThrewAndGoesOn) {
  Worker worker;
  worker.start([] { throw std::runtime_error("lost"); });
  EXPECT_THROW(worker.wait(), std::runtime_error);
  worker.wait();  // there is none
  bool done = false;
  worker.start([&] { done = true; });
  worker.wait();
  EXPECT_TRUE(done);
}

TEST(Worker, FinishesItsWorkBeforeItEnds) {
  bool done = false;
  {
    Worker worker;
    worker.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    });
  }
  EXPECT_TRUE(done);
}

TEST(Worker, MayNeverHaveWork) { const Worker worker; }

}  // namespace
}  // namespace strata
