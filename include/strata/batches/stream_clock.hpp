// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

#include "strata/cuda/stream.hpp"

namespace strata::batches {

/// Measures the seconds that a stream takes for the work between begin() and end(), batch after batch,
/// including times in which it waits for other streams. Does nothing on the CPU.
class StreamClock {
 public:
  StreamClock() = default;
  explicit StreamClock(Device device) : used_(device.is_cuda()), begin_(device, used_), end_(device, used_) {}

  void begin(const cuda::Stream& stream) {
    take();
    begin_.record(stream);
  }
  void end(const cuda::Stream& stream) {
    end_.record(stream);
    running_ = used_;
  }
  /// Seconds of the batches that ended since the last call. REQUIRES: end() was called for the last batch.
  double take_seconds() {
    take();
    return std::exchange(seconds_, 0);
  }
  const cuda::Event& ended() const { return end_; }

 private:
  void take() {
    constexpr double kMillisecond = 1e-3;
    if (!std::exchange(running_, false)) return;
    end_.synchronize();
    seconds_ += end_.elapsed_ms(begin_) * kMillisecond;
  }

  bool used_ = false, running_ = false;
  double seconds_ = 0;
  cuda::Event begin_, end_;
};

}  // namespace strata::batches
