#include "strata/train/stop_listener.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <string_view>

#include "strata/util/error.hpp"

namespace strata::train {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

constexpr std::chrono::milliseconds kTick{100};

}  // namespace

StopListener::StopListener(std::chrono::milliseconds patience) {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this, patience] { listen(patience); });
}

StopListener::~StopListener() {
  ending_ = true;
  thread_.join();
}

void StopListener::listen(std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const sigset_t set = stop_signals();
  const timespec tick{0, std::chrono::nanoseconds(kTick).count()};
  std::uint64_t seen = 0;
  Clock::time_point last_move;
  while (!ending_) {
    const int signal = sigtimedwait(&set, nullptr, &tick);
    if (signal > 0 && signal_ == 0) {
      signal_ = signal;
      last_move = Clock::now();
    }
    if (signal_ == 0) continue;
    if (const std::uint64_t progress = progress_; progress != seen) {
      seen = progress;
      last_move = Clock::now();
    }
    if (Clock::now() - last_move < patience) continue;
    constexpr std::string_view kMessage =
        "strata-train: stopped by a signal; nothing moved since, so no checkpoint was written\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
    ::_exit(static_cast<int>(ExitCode::stopped_unsaved));
  }
}

}  // namespace strata::train
