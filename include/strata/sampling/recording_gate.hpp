// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace strata::sampling {

/// Lets the thread of a sampler record CUDA graphs only while its caller waits for it. As long as any thread
/// records, CUDA refuses every thread to synchronize the device, and the caller's code may want to.
///
/// Thread safe.
class RecordingGate {
 public:
  /// Opens the gate for the lifetime of the object, at whose end nothing is recorded any more.
  class Open {
   public:
    explicit Open(RecordingGate& gate) : gate_(gate) { gate_.enter(State::open); }
    ~Open() { gate_.close(); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    RecordingGate& gate_;
  };

  /// A recording. The constructor blocks while the gate is closed; without a gate it is always open.
  class Recording {
   public:
    explicit Recording(RecordingGate* gate) : gate_(gate), begun_(gate_ == nullptr || gate_->begin()) {}
    ~Recording() {
      if (gate_ != nullptr && begun_) gate_->end();
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    explicit operator bool() const { return begun_; }  ///< false: the gate was given up

   private:
    RecordingGate* gate_;
    bool begun_;
  };

  /// Closes the gate. Waits for the end of recordings.
  void close() {
    enter(State::closed);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return recordings_ == 0; });
  }
  /// Says that the gate will not be opened, so that nobody waits for it. Until it is, all the same.
  void give_up() { enter(State::given_up); }

 private:
  enum class State : std::uint8_t { closed, open, given_up };

  void enter(State state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    changed_.notify_all();
  }
  bool begin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_ != State::closed; });
    if (state_ == State::given_up) return false;
    ++recordings_;
    return true;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    --recordings_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::closed;
  int recordings_ = 0;
};

}  // namespace strata::sampling
