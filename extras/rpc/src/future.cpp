// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/future.hpp"

#include "autograd/contexts.hpp"
#include "strata/util/error.hpp"
#include "strata/util/threads.hpp"
#include "workers.hpp"

namespace strata::rpc {
namespace {

struct Promise {
  explicit Promise(std::shared_ptr<Completion> what) : completion(std::move(what)) {}
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;
  ~Promise() {
    if (completion->is_done()) return;
    completion->fail(std::make_exception_ptr(
        CommError("the agent has ended, so that the callback of a future will not run",
                  "Wait for what callbacks return before you call shutdown().")));
  }
  std::shared_ptr<Completion> completion;
};

}  // namespace

std::shared_ptr<void> keep_promise(std::shared_ptr<Completion> completion) {
  return std::make_shared<Promise>(std::move(completion));
}

bool Completion::finish(std::exception_ptr error, const std::function<void()>& set_result) {
  std::vector<std::function<void()>> continuations;
  {
    const std::lock_guard lock(mutex_);
    if (done_) return false;
    set_result();
    error_ = std::move(error);
    done_ = true;
    continuations.swap(continuations_);
    changed_.notify_all();
  }
  const auto workers = workers_.lock();
  for (std::function<void()>& work : continuations)
    if (workers) workers->push(std::move(work));
  return true;
}

void Completion::wait() {
  if (!is_done_soon()) {
    const Workers::Waiting waiting;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_done(); });
  }
  if (const std::exception_ptr failed = error()) std::rethrow_exception(failed);
}

bool Completion::wait_for(std::chrono::milliseconds time) {
  if (is_done_soon()) return true;
  const Workers::Waiting waiting;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return is_done(); });
}

bool Completion::is_done_soon() const {
  if (is_done()) return true;
  const auto workers = workers_.lock();
  return workers && busy_poll(workers->busy_poll_time(), [this] { return is_done(); });
}

std::exception_ptr Completion::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void Completion::then(std::function<void()> callback) {
  std::function<void()> work = for_current_context(std::move(callback));
  {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      continuations_.push_back(std::move(work));
      return;
    }
  }
  if (const auto workers = workers_.lock()) workers->push(std::move(work));
}

}  // namespace strata::rpc
