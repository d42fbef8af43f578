// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "strata/util/system.hpp"
#include "strata/util/threads.hpp"

namespace strata {

struct ThreadPool::State {
  std::vector<std::thread> threads;
  std::mutex turn;  // one loop at a time
  std::atomic<int> limit{0};

  std::mutex mutex;
  std::condition_variable start, done;
  std::uint64_t generation = 0;
  int busy = 0, helpers = 0;
  bool stopping = false;

  const std::function<void(std::int64_t, std::int64_t)>* body = nullptr;
  std::int64_t count = 0, grain = 1;
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;

  void run_pieces() {
    for (;;) {
      const std::int64_t begin = next.fetch_add(grain);
      if (begin >= count) return;
      try {
        (*body)(begin, std::min(begin + grain, count));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  }

  void serve(int number) {
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        start.wait(lock, [&] { return stopping || (generation != seen && number < helpers); });
        if (stopping) return;
        seen = generation;
      }
      run_pieces();
      const std::lock_guard lock(mutex);
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  if (num_threads <= 0) num_threads = available_cores();
  state_->limit = num_threads;
  for (int i = 0; i + 1 < num_threads; ++i)
    state_->threads.emplace_back([state = state_.get(), i] { state->serve(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->start.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadPool::num_threads() const noexcept { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::limit(int num_threads) noexcept {
  state_->limit = std::clamp(num_threads, 1, this->num_threads());
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const int helpers = state_->limit - 1;
  if (helpers == 0 || count <= grain) {
    for (std::int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count));
    return;
  }
  const std::lock_guard turn(state_->turn);
  {
    const std::lock_guard lock(state_->mutex);
    state_->body = &body;
    state_->count = count;
    state_->grain = grain;
    state_->next = 0;
    state_->failure = nullptr;
    state_->busy = state_->helpers = helpers;
    ++state_->generation;
  }
  state_->start.notify_all();
  state_->run_pieces();
  std::unique_lock lock(state_->mutex);
  state_->done.wait(lock, [&] { return state_->busy == 0; });
  if (state_->failure) std::rethrow_exception(state_->failure);
}

int available_cores() { return HostLimits().cores(); }

}  // namespace strata
