// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <signal.h>

#include <atomic>
#include <thread>

#include "strata/partition/build.hpp"

namespace strata::partition {

/// During its lifetime SIGINT, SIGTERM and SIGHUP end a build cleanly. Make it before any other thread.
///
/// A thread waits for the signals. If nothing is on disk yet, the signal ends the process at once, because
/// METIS cannot be interrupted. Else the build is asked to stop and to remove what it wrote, and further
/// signals are ignored.
class InterruptGuard {
 public:
  explicit InterruptGuard(StopFlag& stop);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that arrived, or 0.
  int signal() const noexcept { return signal_; }

 private:
  void wait();

  StopFlag& stop_;
  sigset_t signals_;
  std::atomic<int> signal_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace strata::partition
