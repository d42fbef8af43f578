// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::batches {

/// How far the steps of a run of stages are. Step s gets seeds, is sampled, gathered and used in buffer s % buffers;
/// several threads may sample, or gather, different steps at once. Steps are used and released in their
/// order.
///
/// With 2 buffers, step 2 may get seeds when step 0 was released. close() lets begin no further step than
/// those whose buffers are free by then, which are the same on all ranks that released the same steps; steps
/// that got seeds are sampled and gathered still. Thread safe.
class StepBoard {
 public:
  StepBoard(Count steps, int buffers)
      : steps_(steps),
        seeded_(static_cast<std::size_t>(buffers), -1),
        sampled_(seeded_),
        gathered_(seeded_) {}

  /// Blocks until the buffer of the step is free; false if the step is not to get seeds.
  bool wait_until_free(Count step) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || closed_ || step < limit(); });
    return !failure_ && step < limit();
  }
  void seeded(Count step) { note(seeded_, step); }
  void sampled(Count step) { note(sampled_, step); }

  /// Block until the step got seeds, or was sampled; false if it will not be.
  bool wait_until_seeded(Count step) { return wait_for(seeded_, step); }
  bool wait_until_sampled(Count step) { return wait_for(sampled_, step); }
  void gathered(Count step) { note(gathered_, step); }

  /// Blocks until the step was gathered; false after the last. Rethrows what a stage failed with.
  bool wait_until_gathered(Count step) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_decided(step); });
    if (failure_) std::rethrow_exception(failure_);
    return step < steps_;
  }
  /// Whether wait_until_gathered() would return, or throw, at once within so long.
  bool wait_for_gathered(Count step, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return is_decided(step); });
  }
  void release(Count step) {
    const std::lock_guard lock(mutex_);
    released_ = step + 1;
    changed_.notify_all();
  }

  /// Returns how many steps are begun in all.
  Count close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
    return limit();
  }
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    changed_.notify_all();
  }

 private:
  using Marks = std::vector<Count>;  // by buffer, the last step that came so far; -1: none
  bool wait_for(Marks& marks, Count step) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || at(marks, step) == step || (closed_ && step >= limit()); });
    return !failure_ && at(marks, step) == step;
  }
  Count& at(Marks& marks, Count step) { return marks[static_cast<std::size_t>(step) % marks.size()]; }
  bool is_decided(Count step) { return failure_ || at(gathered_, step) == step || step >= steps_; }
  /// The first step whose buffer is in use.
  Count limit() const { return std::min(steps_, released_ + std::ssize(sampled_)); }
  void note(Marks& marks, Count step) {
    const std::lock_guard lock(mutex_);
    at(marks, step) = step;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Count steps_, released_ = 0;
  Marks seeded_, sampled_, gathered_;
  bool closed_ = false;
  std::exception_ptr failure_;
};

}  // namespace strata::batches
