// SPDX-License-Identifier: Apache-2.0
#include "strata/cuda/device.hpp"

#include "backend.hpp"
#include "strata/util/error.hpp"

namespace strata::cuda {

int device_count() {
  static const int count = backend::device_count();
  return count;
}
std::string device_name(int device) { return backend::device_name(device); }
std::string device_uuid(int device) { return backend::device_uuid(device); }
MemoryInfo device_memory(int device) { return backend::device_memory(device); }
int num_multiprocessors(int device) { return backend::num_multiprocessors(device); }

DeviceGuard::DeviceGuard(Device device) {
  if (!device.is_cuda()) return;
  const int current = backend::current_device();
  if (current == device.index) return;
  backend::set_device(device.index);
  previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ < 0) return;
  try {
    backend::set_device(previous_);
  } catch (const CudaError&) {  // the device is lost; the next call reports it
  }
}

}  // namespace strata::cuda
