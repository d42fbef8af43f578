// SPDX-License-Identifier: Apache-2.0
#include "channels/job_thread.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::rpc {
namespace {

using namespace std::chrono_literals;

/// How long a thread looks for jobs before it sleeps: not at all, for less than a job takes, and for longer.
class JobThreads : public testing::TestWithParam<std::chrono::milliseconds> {};

TEST_P(JobThreads, DoTheirJobsInOrderHoweverFarApartTheyCome) {
  JobThread thread(GetParam());
  std::vector<int> done;
  std::promise<void> last;
  for (int i = 0; i < 1000; ++i) {
    if (i % 200 == 0) std::this_thread::sleep_for(3ms);
    thread.push([&, i] {
      done.push_back(i);
      if (i == 999) last.set_value();
    });
  }
  last.get_future().wait();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(done[at(i)], i);
}

TEST_P(JobThreads, DropWhatWaitsWhenTheyAreStopped) {
  JobThread thread(GetParam());
  std::promise<void> begun;
  const auto held = std::make_shared<int>(1);
  bool second_ran = false;
  thread.push([&] {
    begun.set_value();
    while (!thread.is_stopped()) std::this_thread::yield();
  });
  thread.push([&second_ran, held] { second_ran = true; });
  begun.get_future().wait();
  thread.stop();
  EXPECT_EQ(held.use_count(), 1);
  thread.join();
  EXPECT_FALSE(second_ran);
  thread.push([&second_ran] { second_ran = true; });
  EXPECT_FALSE(second_ran);
}

TEST_P(JobThreads, EndWhileTheyLookForJobs) {
  JobThread thread(GetParam() * 1000);  // longer than the test may take
  std::promise<void> done;
  thread.push([&] { done.set_value(); });
  done.get_future().wait();
  const auto begin = std::chrono::steady_clock::now();
  thread.stop();
  thread.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

INSTANTIATE_TEST_SUITE_P(Each, JobThreads, testing::Values(0ms, 1ms, 20ms));

}  // namespace
}  // namespace strata::rpc
