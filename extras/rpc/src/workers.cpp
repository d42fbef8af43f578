// SPDX-License-Identifier: Apache-2.0
#include "workers.hpp"

#include <utility>

#include "strata/util/threads.hpp"

namespace strata::rpc {
namespace {

/// The pool of this thread.
Workers*& own_pool() {
  thread_local Workers* pool = nullptr;
  return pool;
}

}  // namespace

void Workers::push(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  queue_.push_back(std::move(work));
  has_work_ = true;
  find_thread();
}

void Workers::find_thread() {
  if (stopped_ || queue_.empty() || running_ >= threads_) return;
  if (static_cast<int>(queue_.size()) <= looking_) return;
  wanted_.notify_one();
  if (static_cast<int>(queue_.size()) <= idle_ || running_ + idle_ >= threads_) return;
  ++idle_;
  std::thread([self = shared_from_this()] { self->serve(); }).detach();
}

void Workers::serve() {
  own_pool() = this;
  std::unique_lock lock(mutex_);
  while (idle_ <= threads_ || !queue_.empty()) {
    look_for_work(lock);
    wanted_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
    if (stopped_) break;
    if (running_ >= threads_) break;  // threads that waited have come back
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    has_work_ = !queue_.empty();
    --idle_;
    ++running_;
    lock.unlock();
    work();
    work = nullptr;  // what it holds is freed without the lock
    lock.lock();
    --running_;
    ++idle_;
  }
  --idle_;
  left_.notify_all();
}

/// Polls for work for a while, without sleeping and without the lock.
void Workers::look_for_work(std::unique_lock<std::mutex>& lock) {
  if (!queue_.empty() || stopped_ || busy_poll_.count() == 0) return;
  ++looking_;
  lock.unlock();
  busy_poll(busy_poll_, [this] { return has_work_.load(std::memory_order_relaxed); });
  lock.lock();
  --looking_;
}

bool Workers::is_idle() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && running_ == 0 && waiting_ == 0;
}

void Workers::stop() {
  std::deque<std::function<void()>> dropped;
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  has_work_ = true;
  dropped.swap(queue_);
  wanted_.notify_all();
}

bool Workers::join(std::optional<std::chrono::milliseconds> patience) {
  const auto all_left = [this] { return idle_ + running_ + waiting_ == 0; };
  std::unique_lock lock(mutex_);
  if (patience) return left_.wait_for(lock, *patience, all_left);
  left_.wait(lock, all_left);
  return true;
}

bool Workers::is_worker() { return own_pool() != nullptr; }

Workers::Waiting::Waiting() {
  Workers* pool = own_pool();
  if (pool == nullptr) return;
  const std::lock_guard lock(pool->mutex_);
  --pool->running_;
  ++pool->waiting_;
  pool->find_thread();
}

Workers::Waiting::~Waiting() {
  Workers* pool = own_pool();
  if (pool == nullptr) return;
  const std::lock_guard lock(pool->mutex_);
  --pool->waiting_;
  ++pool->running_;
}

}  // namespace strata::rpc
