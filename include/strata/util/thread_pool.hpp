// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

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

}  // namespace strata
