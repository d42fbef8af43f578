// SPDX-License-Identifier: Apache-2.0
#include "channels/job_thread.hpp"

#include <utility>

#include "strata/util/threads.hpp"

namespace strata::rpc {

JobThread::~JobThread() {
  stop();
  join();
}

void JobThread::push(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  jobs_.push_back(std::move(job));
  has_jobs_ = true;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

void JobThread::stop() {
  std::deque<std::function<void()>> dropped;  // ends without the lock
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  dropped.swap(jobs_);
  changed_.notify_one();
}

void JobThread::join() {
  if (thread_.joinable()) thread_.join();
}

void JobThread::run() {
  while (const auto job = next()) (*job)();
}

/// Waits for the next job; nothing after stop().
std::optional<std::function<void()>> JobThread::next() {
  busy_poll(busy_poll_, [this] { return has_jobs_ || stopped_; });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || !jobs_.empty(); });
  if (stopped_) return std::nullopt;
  std::function<void()> job = std::move(jobs_.front());
  jobs_.pop_front();
  has_jobs_ = !jobs_.empty();
  return job;
}

}  // namespace strata::rpc
