// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "strata/util/threads.hpp"

namespace strata {

struct Worker::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> work;  // empty: none is waiting to be done
  std::exception_ptr error;
  bool busy = false, done = false, ending = false;
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return work || ending; });
      if (!work) return;
      const auto now = std::exchange(work, nullptr);
      lock.unlock();
      std::exception_ptr thrown;
      try {
        now();
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      error = thrown;
      done = true;
      changed.notify_all();
    }
  }
};

Worker::Worker() : state_(std::make_unique<State>()) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

void Worker::start(std::function<void()> work) {
  State& s = *state_;
  if (!s.thread.joinable()) s.thread = std::thread([&s] { s.run(); });
  {
    const std::lock_guard lock(s.mutex);
    s.work = std::move(work);
    s.busy = true;
    s.done = false;
  }
  s.changed.notify_all();
}

bool Worker::busy() const noexcept { return state_->busy; }

void Worker::wait() {
  State& s = *state_;
  if (!s.busy) return;
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&s] { return s.done; });
  s.busy = false;
  if (s.error) std::rethrow_exception(std::exchange(s.error, nullptr));
}

}  // namespace strata
