// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace strata::rpc {

/// The threads that run calls. At most `threads` of them compute at a time. One that waits for another call
/// is replaced while it waits, so that calls that call back never wait for a thread. Thread safe; owned by
/// shared_ptr, because a thread may outlast its agent.
class Workers : public std::enable_shared_from_this<Workers> {
 public:
  /// `busy_poll`: how long a thread polls for more work, or for the Completion that it waits for, before it
  /// sleeps.
  explicit Workers(int threads, std::chrono::nanoseconds busy_poll = {})
      : threads_(threads), busy_poll_(busy_poll) {}
  std::chrono::nanoseconds busy_poll_time() const { return busy_poll_; }

  /// Runs `work`, which throws nothing, soon. Dropped after stop().
  void push(std::function<void()> work);
  bool is_idle() const;  ///< nothing runs, and nothing waits to run
  /// Lets no more work begin and drops what has not begun.
  void stop();
  /// Waits for what still runs, for at most `patience` if there is one; returns whether nothing does. Called
  /// after stop(), by none of the threads.
  bool join(std::optional<std::chrono::milliseconds> patience);

  /// Whether this thread is one of an agent's.
  static bool is_worker();
  /// While it lives, this thread waits: if it is a worker, another one takes its place.
  class Waiting {
   public:
    Waiting();
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
  };

 private:
  void serve();
  void find_thread();  // for the queue; with the lock held
  void look_for_work(std::unique_lock<std::mutex>& lock);

  const int threads_;
  const std::chrono::nanoseconds busy_poll_;
  mutable std::mutex mutex_;
  std::condition_variable wanted_, left_;
  std::deque<std::function<void()>> queue_;
  int idle_ = 0;     // threads that wait for work
  int looking_ = 0;  // those of them that do not sleep
  int running_ = 0;  // threads that run calls and do not wait for others
  int waiting_ = 0;  // threads whose calls wait for others
  bool stopped_ = false;
  std::atomic<bool> has_work_ = false;  // or is stopped; for threads that look without the lock
};

}  // namespace strata::rpc
