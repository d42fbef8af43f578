// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace strata::train {

/// Turns SIGINT, SIGTERM and SIGUSR1 into a flag that the training loop reads.
///
/// Make it first in main, before any other thread: it blocks the signals for this thread and all threads that
/// it starts, and waits for them in a thread of its own. If a signal arrives while the process starts, the
/// system keeps it until then. A request never ends the process by itself: the run obeys it after the current
/// step or write, however long that takes.
class StopListener {
 public:
  StopListener();
  /// Selects a listener without signals: a program that has handlers of its own calls request().
  struct ByHand {};
  explicit StopListener(ByHand);
  ~StopListener();  ///< ends the thread; the signals stay blocked
  StopListener(const StopListener&) = delete;
  StopListener& operator=(const StopListener&) = delete;

  void request(int signal);  ///< as if this signal had arrived
  bool requested() const noexcept { return signal_ != 0; }
  int signal() const noexcept { return signal_; }  ///< the first that arrived; 0: none

  /// Until loaded(), the listening thread calls `act` with each signal, at once if one has arrived already.
  /// For a program that has nothing to save while it loads, and therefore ends itself in `act`.
  void until_loaded(std::function<void(int signal)> act);
  /// From now on a request is only a flag.
  void loaded();
  bool is_loaded() const noexcept { return loaded_; }  ///< whether loaded() was called

 private:
  void listen();

  std::atomic<int> signal_{0};
  std::atomic<bool> ending_{false}, loaded_{false};
  // protects act_ and is held while it runs, so that either act_ or the loop gets a request
  std::mutex mutex_;
  std::function<void(int)> act_;
  std::thread thread_;
};

}  // namespace strata::train
