// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "strata/util/error.hpp"
#include "support/mpi_world.hpp"
#include "support/skipped_cases.hpp"
#include "support/start_ranks.hpp"

namespace strata::test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

seconds test_limit() {
  const char* text = std::getenv("STRATA_TEST_SECONDS");
  return seconds(text ? std::atoi(text) : 60);
}

const comm::World*& world_pointer() {
  static const comm::World* world = nullptr;
  return world;
}

/// Ends the run when it passes: a rank that left a test early would leave the others waiting for it.
class Deadline {
 public:
  Deadline() : thread_([this](const std::stop_token& stop) { watch(stop); }) {}

  void set(seconds from_now, std::string doing) {
    const std::lock_guard lock(mutex_);
    armed_ = true;
    end_ = steady_clock::now() + from_now;
    doing_ = std::move(doing);
    changed_.notify_all();
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    armed_ = false;
    changed_.notify_all();
  }

 private:
  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      if (!armed_) {
        changed_.wait(lock, stop, [this] { return armed_; });
      } else if (steady_clock::now() >= end_) {
        fmt::print(stderr, "[rank {}] {}\n", world().rank(), doing_);
        std::fflush(stderr);
        world().abort(1);
      } else {
        const auto end = end_;
        changed_.wait_until(lock, stop, end, [&] { return !armed_ || end_ != end; });
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool armed_ = false;
  steady_clock::time_point end_;
  std::string doing_;
  std::jthread thread_;  // last: it uses all of the above
};

std::string name_of(const testing::TestInfo& test) {
  return fmt::format("{}.{}", test.test_suite_name(), test.name());
}

/// Prints the failures of this rank, each with its rank. Only on the ranks that have no other printer.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    fmt::print(stderr, "[rank {}] {}:{}: Failure\n{}\n", world().rank(),
               part.file_name() ? part.file_name() : "unknown", part.line_number(), part.message());
    std::fflush(stderr);
  }
};

/// Brings all ranks to one verdict about each test.
class Verdict : public testing::EmptyTestEventListener {
 public:
  Verdict() : communicator_(world().communicator().duplicate()) {}

 private:
  void OnTestStart(const testing::TestInfo& test) override {
    deadline_.set(test_limit(),
                  fmt::format("{} has not ended after {} s", name_of(test), test_limit().count()));
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    const bool failed = test.result()->Failed();
    if (failed)
      deadline_.set(seconds(10), fmt::format("{} failed here; other ranks have not left it", name_of(test)));
    const auto verdicts = communicator_.all_gather(failed ? "failed" : "");
    deadline_.clear();
    std::string ranks;
    for (std::size_t r = 0; r < verdicts.size(); ++r) {
      if (!verdicts[r].empty()) ranks += fmt::format(" {}", r);
    }
    if (!failed && !ranks.empty()) ADD_FAILURE() << name_of(test) << " failed on rank" << ranks;
  }

  comm::Communicator communicator_;
  Deadline deadline_;
};

void install_listeners() {
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world().rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    delete listeners.Release(listeners.default_xml_generator());
    listeners.Append(new FailurePrinter);
  }
  listeners.Append(
      new Verdict);  // last, because ends are told in reverse order: before the result is printed
}

/// Collective: what is skipped on one rank may run on another.
bool skipped_everywhere() {
  const auto ranks = world().communicator().all_gather(every_case_skipped() ? "skipped" : "");
  return std::find(ranks.begin(), ranks.end(), "") == ranks.end();
}

}  // namespace

const comm::World& world() { return *world_pointer(); }

int run(int argc, char** argv) {
  const comm::World world(start_ranks(&argc, &argv));
  world_pointer() = &world;
  testing::InitGoogleTest(&argc, argv);
  install_listeners();
  const int result = RUN_ALL_TESTS();
  if (world.rank() == 0) fmt::print("{}", skipped_cases());
  std::fflush(stdout);
  const bool skipped = skipped_everywhere();
  return result == 0 && skipped ? kSkippedExitCode : result;
}

}  // namespace strata::test

int main(int argc, char** argv) {
  try {
    return strata::test::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", strata::format_error("test", error));
    return 1;
  }
}
