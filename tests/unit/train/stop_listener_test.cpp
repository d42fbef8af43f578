// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "strata/train/trainer.hpp"
#include "strata/util/error.hpp"

namespace strata::train {
namespace {

using std::chrono::milliseconds;

/// Runs `body` in a process of its own, for a listener blocks signals for good and may end the process.
/// Returns its exit code; -1: a signal killed it.
int exit_code_of(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool wait_for_request(const StopListener& listener) {
  for (int i = 0; i < 500 && !listener.requested(); ++i) std::this_thread::sleep_for(milliseconds(10));
  return listener.requested();
}

class StopListenerTest : public testing::TestWithParam<int> {};

TEST_P(StopListenerTest, TurnsASignalIntoAFlag) {
  EXPECT_EQ(exit_code_of([] {
              StopListener listener;
              if (listener.requested() || listener.signal() != 0) return 1;
              ::kill(::getpid(), GetParam());
              if (!wait_for_request(listener)) return 2;
              return listener.signal() == GetParam() ? 0 : 3;
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Signals, StopListenerTest, testing::Values(SIGINT, SIGTERM, SIGUSR1));

TEST(StopListenerSignals, KeepsTheFirst) {
  EXPECT_EQ(exit_code_of([] {
              StopListener listener;
              ::kill(::getpid(), SIGUSR1);
              if (!wait_for_request(listener)) return 1;
              ::kill(::getpid(), SIGTERM);
              std::this_thread::sleep_for(milliseconds(300));
              return listener.signal() == SIGUSR1 ? 0 : 2;
            }),
            0);
}

TEST(StopListenerSignals, TakesOneThatCameBefore) {
  EXPECT_EQ(exit_code_of([] {
              sigset_t set;
              sigemptyset(&set);
              sigaddset(&set, SIGUSR1);
              ::sigprocmask(SIG_BLOCK, &set, nullptr);
              ::kill(::getpid(), SIGUSR1);
              const StopListener listener;
              return wait_for_request(listener) ? 0 : 1;
            }),
            0);
}

// A step, a write or a sort may take longer than any patience.
TEST(StopListenerSignals, LeavesTheProcessAloneHoweverLongItTakes) {
  EXPECT_EQ(exit_code_of([] {
              StopListener listener;
              ::kill(::getpid(), SIGTERM);
              std::this_thread::sleep_for(milliseconds(7000));
              return listener.requested() ? 0 : 1;
            }),
            0);
}

TEST(StopListenerSignals, EndsAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(exit_code_of([] {
              { const StopListener listener; }
              return 0;
            }),
            0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

constexpr int kActed = 42;
void leave(int signal) { ::_exit(signal == SIGTERM ? kActed : 1); }

TEST(StopListenerLoading, ActsOnASignal) {
  EXPECT_EQ(exit_code_of([] {
              StopListener listener;
              listener.until_loaded(leave);
              ::kill(::getpid(), SIGTERM);
              std::this_thread::sleep_for(std::chrono::seconds(15));
              return 2;
            }),
            kActed);
}

TEST(StopListenerLoading, ActsOnASignalThatCameBefore) {
  EXPECT_EQ(exit_code_of([] {
              StopListener listener;
              ::kill(::getpid(), SIGTERM);
              if (!wait_for_request(listener)) return 2;
              listener.until_loaded(leave);
              return 3;
            }),
            kActed);
}

TEST(StopListenerLoading, OnlyTellsAfterwards) {
  EXPECT_EQ(exit_code_of([] {
              StopListener listener;
              listener.until_loaded(leave);
              listener.loaded();
              ::kill(::getpid(), SIGTERM);
              return wait_for_request(listener) ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace strata::train
