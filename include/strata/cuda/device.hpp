// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "strata/util/types.hpp"

namespace strata::cuda {

int device_count();                   ///< 0 without CUDA, without a driver or without a GPU
std::string device_name(int device);  ///< "NVIDIA H200"
std::string device_uuid(int device);  ///< names the physical GPU across processes

struct MemoryInfo {
  std::int64_t free_bytes, total_bytes;
};
MemoryInfo device_memory(int device);
int num_multiprocessors(int device);

/// Makes `device` current for this thread while it lives. Does nothing for the cpu.
///
///     const DeviceGuard guard(device);
///     kernel<<<blocks, threads, 0, stream.get()>>>(...);
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;
};

}  // namespace strata::cuda
