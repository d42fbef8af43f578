#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace strata::train {

/// Turns SIGINT, SIGTERM and SIGUSR1 into a flag that the training loop reads.
///
/// Make it before any other thread: it blocks the signals for this thread and all that it starts, and waits
/// for them in a thread of its own. If nothing moves for `patience` after a signal (the other ranks are
/// gone), the process leaves with ExitCode::stopped_unsaved.
class StopListener {
 public:
  explicit StopListener(std::chrono::milliseconds patience = std::chrono::seconds(5));
  ~StopListener();  ///< ends the thread; the signals stay blocked
  StopListener(const StopListener&) = delete;
  StopListener& operator=(const StopListener&) = delete;

  bool requested() const noexcept { return signal_ != 0; }
  int signal() const noexcept { return signal_; }  ///< the first that came; 0: none
  void alive() noexcept { ++progress_; }           ///< something moved; cheap

 private:
  void listen(std::chrono::milliseconds patience);

  std::atomic<int> signal_{0};
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace strata::train
