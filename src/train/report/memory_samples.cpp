// SPDX-License-Identifier: Apache-2.0
#include "report/memory_samples.hpp"

#include <utility>

#include "strata/cuda/device.hpp"
#include "strata/util/system.hpp"

namespace strata::train {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::int64_t used_device_bytes(Device device) {
  if (!device.is_cuda()) return 0;
  const cuda::MemoryInfo memory = cuda::device_memory(device.index);
  return memory.total_bytes - memory.free_bytes;
}

/// Drops every second sample: the second, the fourth and so on.
void drop_every_second(std::vector<MemorySample>& samples) {
  for (std::size_t i = 0; 2 * i < samples.size(); ++i) samples[i] = samples[2 * i];
  samples.resize((samples.size() + 1) / 2);
}

}  // namespace

MemorySamples::MemorySamples(Device device, Clock::time_point now)
    : device_(device), start_(now), start_time_(seconds_since_1970()), next_(now + kInterval) {}

void MemorySamples::poll(Clock::time_point now) {
  if (now < next_) return;
  if (samples_.size() + 1 == kMost) {  // the last place is take()'s
    drop_every_second(samples_);
    interval_ *= 2;
  }
  sample(now);
  next_ = now + interval_;
}

std::vector<MemorySample> MemorySamples::take(Clock::time_point now) {
  sample(now);
  interval_ = kInterval;
  next_ = now + interval_;
  return std::exchange(samples_, {});
}

void MemorySamples::sample(Clock::time_point now) {
  samples_.push_back({.time = start_time_ + std::chrono::duration<double>(now - start_).count(),
                      .host_bytes = resident_bytes(),
                      .device_bytes = used_device_bytes(device_)});
}

}  // namespace strata::train
