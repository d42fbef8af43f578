// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace strata {

/// A fixed set of threads that run the pieces of one loop at a time. An owner; the destructor joins.
class ThreadPool {
 public:
  /// `num_threads` counts the calling thread: 1 means no thread is started. 0: one a core this process may
  /// use.
  explicit ThreadPool(int num_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const noexcept;
  /// Loops that begin from now on run on at most so many of the threads, the calling one counted; at least 1.
  /// From any thread.
  void limit(int num_threads) noexcept;

  /// Calls body(begin, end) on disjoint pieces that cover [0, count); pieces but the last have `grain`
  /// elements.
  ///
  /// Blocks until all are done. Which thread runs a piece is not defined, so a body must depend on its range
  /// alone. The first exception of a body is rethrown here. Calls from several threads take turns; a body
  /// must not call back.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Cores that this process may use (its affinity mask, cgroup limit), at least 1.
int available_cores();

}  // namespace strata
