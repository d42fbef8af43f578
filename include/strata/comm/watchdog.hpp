// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// A thread per rank that ends the run when a rank falls silent, so that nothing hangs: every rank sends a
/// heartbeat to rank 0 and hears one from it each `period`. A rank whose process is stopped, whose host is
/// gone, or whose `alive()` was not called for `patience` is named (rank, host, what it did last) on stderr,
/// and the run is aborted.
///
/// While any rank takes its time (`take_time`), others may be waiting for it: nobody's lack of progress
/// counts.
class Watchdog {
 public:
  struct Options {
    std::chrono::milliseconds period{1000};
    std::chrono::milliseconds patience{300000};  ///< without progress; 0: only heartbeats are watched
    std::chrono::milliseconds silence{7000};     ///< without a heartbeat
    /// Without a heartbeat of a rank that takes its time: pinning much memory holds up all of its threads.
    std::chrono::milliseconds busy_silence{30000};
    /// Was the run asked to stop? If so, and ranks have fallen silent, it ends with
    /// ExitCode::stopped_unsaved.
    std::function<bool()> stop_requested = [] { return false; };
  };
  Watchdog(const World& world, const Options& options);  ///< collective
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Progress was made; `what` (a literal) is named if it was the last. Thread safe, a store.
  void alive(const char* what) noexcept;
  /// `what` (a literal) begins and may take any time, as reading a large graph or writing to a slow disk
  /// does: until the next alive() of this rank only silence ends the run. Thread safe.
  void take_time(const char* what) noexcept;
  void close();  ///< collective; before the World ends

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::comm
