// SPDX-License-Identifier: Apache-2.0
#include "workers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "strata/rpc/future.hpp"

namespace strata::rpc {
namespace {

/// With the time for which threads look for work before they sleep.
class WorkersTest : public testing::TestWithParam<std::chrono::microseconds> {
 protected:
  /// Called at the end of a test, so that nothing that its work refers to ends before.
  void join() {
    workers_->stop();
    EXPECT_TRUE(workers_->join(std::nullopt));
  }
  std::shared_ptr<Workers> workers_ = std::make_shared<Workers>(1, GetParam());
};

TEST_P(WorkersTest, RunsAllThatIsPushed) {
  constexpr int kCount = 1000;
  std::atomic<int> done{0};
  std::promise<void> last;
  for (int i = 0; i < kCount; ++i)
    workers_->push([&] {
      if (++done == kCount) last.set_value();
    });
  last.get_future().wait();
  EXPECT_EQ(done, kCount);
  join();
}

TEST_P(WorkersTest, ReplacesAThreadThatWaits) {
  // One thread: each of these waits for the one that it pushes.
  constexpr int kDepth = 100;
  const auto all = std::make_shared<Completion>(workers_);
  std::function<void(int, std::shared_ptr<Completion>)> nest = [&](int depth,
                                                                   std::shared_ptr<Completion> done) {
    if (depth > 0) {
      const auto inner = std::make_shared<Completion>(workers_);
      workers_->push([&nest, depth, inner] { nest(depth - 1, inner); });
      inner->wait();
    }
    done->succeed();
  };
  workers_->push([&] { nest(kDepth, all); });
  all->wait();
  EXPECT_TRUE(all->is_done());
  join();
}

TEST_P(WorkersTest, RunsNoMoreThanItsThreadsAtATime) {
  std::atomic<int> running{0}, most{0}, left{200};
  std::promise<void> last;
  for (int i = left; i > 0; --i)
    workers_->push([&] {
      most = std::max<int>(most, ++running);
      std::this_thread::yield();
      --running;
      if (--left == 0) last.set_value();
    });
  last.get_future().wait();
  EXPECT_EQ(most, 1);
  join();
}

TEST_P(WorkersTest, IsIdleWhenAllIsDone) {
  std::promise<void> go, begun;
  workers_->push([&] {
    begun.set_value();
    go.get_future().wait();
  });
  begun.get_future().wait();
  EXPECT_FALSE(workers_->is_idle());
  go.set_value();
  while (!workers_->is_idle()) std::this_thread::yield();
  join();
}

TEST_P(WorkersTest, TakesWorkThatComesLate) {
  for (int i = 0; i < 20; ++i) {
    std::promise<void> done;
    workers_->push([&] { done.set_value(); });
    done.get_future().wait();
    std::this_thread::sleep_for(std::chrono::microseconds(20 * i));  // less and more than it looks
  }
  join();
}

INSTANTIATE_TEST_SUITE_P(BusyPoll, WorkersTest,
                         testing::Values(std::chrono::microseconds(0), std::chrono::microseconds(150)),
                         [](const auto& info) { return info.param.count() == 0 ? "Sleeps" : "Looks"; });

TEST(Future, CallsBackWithItsValueAndItsError) {
  const auto workers = std::make_shared<Workers>(2);
  const auto good = std::make_shared<Completion>(workers), bad = std::make_shared<Completion>(workers);
  Future<int> three(good, [] { return 3; });
  Future<int> four = three.then([](Future<int> done) { return done.wait() + 1; });
  Future<std::string> text =
      Future<int>(bad, [] { return 0; }).then([](Future<int> done) { return std::to_string(done.wait()); });
  good->succeed();
  bad->fail(std::make_exception_ptr(std::runtime_error("lost")));
  EXPECT_EQ(four.wait(), 4);
  EXPECT_THROW(text.wait(), std::runtime_error);
  workers->stop();
  EXPECT_TRUE(workers->join(std::nullopt));
}

TEST(Completion, KeepsTheFirstOutcome) {
  Completion completion(std::weak_ptr<Workers>{});
  completion.fail(std::make_exception_ptr(std::runtime_error("first")));
  completion.succeed();
  EXPECT_THROW(completion.wait(), std::runtime_error);
}

}  // namespace
}  // namespace strata::rpc
