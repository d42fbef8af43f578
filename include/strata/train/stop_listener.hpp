// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace strata::train {

/// Turns SIGINT, SIGTERM and SIGUSR1 into a flag that the training loop reads.
///
/// Make it first thing in main, before any other thread: it blocks the signals for this thread and all that
/// it starts, and waits for them in a thread of its own. A signal that came while its process began is kept
/// by the system and taken then. A request never ends the process by itself: it is obeyed after the step or
/// the write at hand, however long that takes.
class StopListener {
 public:
  StopListener();
  ~StopListener();  ///< ends the thread; the signals stay blocked
  StopListener(const StopListener&) = delete;
  StopListener& operator=(const StopListener&) = delete;

  bool requested() const noexcept { return signal_ != 0; }
  int signal() const noexcept { return signal_; }  ///< the first that came; 0: none

  /// Calls `act` with the signal, at once if one has come: in the listening thread, until loaded(). For a
  /// program that has nothing to save while it loads, and so ends itself there.
  void until_loaded(std::function<void(int signal)> act);
  /// From now on a request is only a flag.
  void loaded();

 private:
  void listen();
  void take(int signal);

  std::atomic<int> signal_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;  // of act_, and held while it runs: a request acts or is seen by the loop, never neither
  std::function<void(int)> act_;
  std::thread thread_;
};

}  // namespace strata::train
