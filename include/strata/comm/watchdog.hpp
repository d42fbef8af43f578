// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/comm/communicator.hpp"

namespace strata::comm {

/// A thread per rank that ends the run when a rank falls silent, so that nothing hangs. In every `period`
/// each rank sends a heartbeat to rank 0 and receives one from it. If a rank's process is stopped, its host
/// is gone, or its `alive()` was not called for `patience`, the rank is named on stderr (rank, host, what it
/// did last) and the run is aborted.
///
/// While any rank is in work of unknown length (`take_time`), the others may be waiting for it, so `patience`
/// is suspended for all ranks.
class Watchdog {
 public:
  struct Options {
    std::chrono::milliseconds period{1000};
    /// Longest time without progress; 0: only heartbeats are watched.
    std::chrono::milliseconds patience{300000};
    std::chrono::milliseconds silence{7000};  ///< longest time without a heartbeat
    /// Longest time without a heartbeat of a rank after take_time(), because pinning much memory holds up all
    /// of its threads.
    std::chrono::milliseconds busy_silence{30000};
    /// Whether the run was asked to stop. If ranks fall silent in such a run, it ends with
    /// ExitCode::stopped_unsaved.
    std::function<bool()> stop_requested = [] { return false; };
    /// What the user may do next; printed below the message.
    std::string advice = {};
    /// Called in place of printing the message, on the thread that watches, with the ranks that it names;
    /// returns the exit code.
    std::function<int(const std::string& message, const std::vector<int>& ranks)> last_words = {};
  };
  Watchdog(const World& world, const Options& options);  ///< collective
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Reports progress. `what` must be a literal; it is named if nothing follows. Thread safe; costs one
  /// store.
  void alive(const char* what) noexcept;
  /// Reports that `what` (a literal) begins and may take any time, such as reading a large graph or writing
  /// to a slow disk. Until the next alive() of this rank only missing heartbeats end the run. Thread safe.
  void take_time(const char* what) noexcept;
  void close();  ///< collective; call it before the World ends

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::comm
