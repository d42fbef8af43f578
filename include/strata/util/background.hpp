// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace strata {

/// Work on a thread of its own, for a caller that looks after something else meanwhile, such as signals.
/// Nobody has to wait for it: if the caller leaves, the work goes on and its result is dropped. What the work
/// uses must therefore belong to it. Signals reach only other threads, so that they interrupt no read or
/// write.
template <typename Result>
class Background {
 public:
  explicit Background(std::function<Result()> work) {
    std::packaged_task<Result()> task(std::move(work));
    result_ = task.get_future();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread takes it over
    std::thread(std::move(task)).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  /// Waits for at most `patience`; returns whether the work has ended.
  bool wait_for(std::chrono::milliseconds patience) const {
    return result_.wait_for(patience) == std::future_status::ready;
  }

  /// Waits; returns what the work returned, or throws what it threw. Call it once.
  Result get() { return result_.get(); }

 private:
  std::future<Result> result_;
};

}  // namespace strata
