// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace strata::rpc {

/// A thread that does jobs one after the other. It begins with the first of them. Thread safe.
class JobThread {
 public:
  /// `busy_poll`: how long it polls for another job before it sleeps.
  explicit JobThread(std::chrono::nanoseconds busy_poll = {}) : busy_poll_(busy_poll) {}
  ~JobThread();  ///< as stop() and join()
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  void push(std::function<void()> job);  ///< which must not throw; dropped after stop()
  /// Drops the jobs that wait. The one that runs sees is_stopped(). Does not wait.
  void stop();
  void join();  ///< waits for the job that runs; after stop(), by one thread
  bool is_stopped() const { return stopped_; }

 private:
  void run();
  std::optional<std::function<void()>> next();

  const std::chrono::nanoseconds busy_poll_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::thread thread_;
  std::atomic<bool> has_jobs_ = false;  // for looking without the lock
  std::atomic<bool> stopped_ = false;
};

}  // namespace strata::rpc
