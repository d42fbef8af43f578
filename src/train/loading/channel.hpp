// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

namespace strata::train {

/// A queue between two stages. Closing it ends the receiver; if it is closed with an exception, the receiver
/// rethrows that.
template <typename T>
class Channel {
 public:
  void send(T value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
    changed_.notify_one();
  }

  /// Waits for the next value; none if the channel is closed and empty. If the channel was closed with an
  /// exception, rethrows it at once.
  std::optional<T> receive() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !values_.empty(); });
    if (failure_) std::rethrow_exception(failure_);
    if (values_.empty()) return std::nullopt;
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }

  void close(std::exception_ptr failure = nullptr) {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (!failure_) failure_ = failure;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> values_;
  bool closed_ = false;
  std::exception_ptr failure_;
};

}  // namespace strata::train
