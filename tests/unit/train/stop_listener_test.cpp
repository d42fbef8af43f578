#include "strata/train/stop_listener.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

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

TEST(StopListenerPatience, KeepsTheFirstSignal) {
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

TEST(StopListenerPatience, LeavesWhenNothingMovesAfterASignal) {
  EXPECT_EQ(exit_code_of([] {
              StopListener listener(milliseconds(200));
              ::kill(::getpid(), SIGTERM);
              std::this_thread::sleep_for(std::chrono::seconds(15));
              return 0;
            }),
            static_cast<int>(ExitCode::stopped_unsaved));
}

TEST(StopListenerPatience, StaysWhileSomethingMoves) {
  EXPECT_EQ(exit_code_of([] {
              StopListener listener(milliseconds(400));
              ::kill(::getpid(), SIGTERM);
              for (int i = 0; i < 150; ++i) {
                listener.alive();
                std::this_thread::sleep_for(milliseconds(10));
              }
              return listener.requested() ? 0 : 1;
            }),
            0);
}

TEST(StopListenerPatience, WaitsForeverWithoutASignal) {
  EXPECT_EQ(exit_code_of([] {
              const StopListener listener(milliseconds(100));
              std::this_thread::sleep_for(milliseconds(500));
              return listener.requested() ? 1 : 0;
            }),
            0);
}

}  // namespace
}  // namespace strata::train
