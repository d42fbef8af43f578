// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace strata {

/// A fixed set of threads that run the pieces of one loop at a time. An owner; the destructor joins.
class ThreadPool {
 public:
  /// `num_threads` includes the calling thread, so 1 starts no thread. 0: one thread per core that this
  /// process may use.
  explicit ThreadPool(int num_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const noexcept;
  /// Loops that begin from now on use at most `num_threads` threads, including the calling one; at least 1.
  /// Any thread may call it.
  void limit(int num_threads) noexcept;

  /// Calls body(begin, end) on disjoint pieces that cover [0, count). All pieces except the last have `grain`
  /// elements.
  ///
  /// Blocks until all pieces are done. Any thread may run any piece, so a body must depend only on its range.
  /// The first exception of a body is rethrown here. Calls from several threads take turns. A body must not
  /// call parallel_for() of the same pool.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Cores that this process may use by its affinity mask and control groups; at least 1.
int available_cores();

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

/// Polls `done()` without sleeping; returns whether it was true before `time` had passed. Use it for what is
/// expected sooner than a sleeping thread wakes up, which takes 10 to 60 us.
template <typename Done>
bool busy_poll(std::chrono::nanoseconds time, Done&& done) {
  if (done()) return true;
  if (time.count() <= 0) return false;
  const auto deadline = std::chrono::steady_clock::now() + time;
  do {
    std::this_thread::yield();  // to the thread that works on what is expected, if cores are few
    if (done()) return true;
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace strata
