// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

namespace strata {

/// A thread that does one piece of work at a time beside the one that owns it. Its first work starts the
/// thread, and later ones reuse it. The destructor waits for the work and joins.
///
///     worker.start([&] { send(messages); });
///     sample();                               // at the same time
///     worker.wait();
///
/// One thread calls a worker.
class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start(std::function<void()> work);  ///< REQUIRES: not busy()
  bool busy() const noexcept;              ///< start() was called, and wait() was not
  /// Waits until the work is done; rethrows what it threw. Returns at once if there is none.
  void wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata
