// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::train {

/// Memory that is held at a time.
struct MemorySample {
  double time = 0;                ///< seconds since 1970
  std::int64_t host_bytes = 0;    ///< resident memory of this process
  std::int64_t device_bytes = 0;  ///< in use on its GPU, by this process and by others; 0 on the cpu
};

/// Samples of a rank's memory over the time of an epoch, every few seconds and at its end.
///
/// However long an epoch is, its samples are at most kMost: when they would be more, every second one is
/// dropped and the next ones are taken half as often.
class MemorySamples {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMost = 64;
  static constexpr std::chrono::seconds kInterval{5};

  explicit MemorySamples(Device device, Clock::time_point now = Clock::now());

  /// Samples if the interval is over; else it looks at the clock only.
  void poll(Clock::time_point now = Clock::now());
  /// What was sampled since the last call, and what is held now.
  std::vector<MemorySample> take(Clock::time_point now = Clock::now());

 private:
  void sample(Clock::time_point now);

  Device device_;
  Clock::time_point start_;
  double start_time_;  ///< the same, in seconds since 1970
  Clock::time_point next_;
  Clock::duration interval_ = kInterval;
  std::vector<MemorySample> samples_;
};

}  // namespace strata::train
