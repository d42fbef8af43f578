// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "strata/cuda/device.hpp"
#include "strata/util/types.hpp"

/// Common code of the benchmarks of tensors on GPUs.
namespace strata::benchmarks {

/// The device of a rank; ranks share devices if there are not enough.
inline Device device_of(int rank) { return {Device::Kind::cuda, rank % cuda::device_count()}; }

inline at::TensorOptions bytes_on(Device device) {
  return at::TensorOptions(at::kByte).device(
      at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index)));
}

/// Waits for all work of the tensor's device.
inline void synchronize(const at::Tensor& tensor) {
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(tensor.get_device());
}

/// A function to call; its answer confirms that the tensor is there.
inline int receive_on_gpu(const at::Tensor& tensor) {
  synchronize(tensor);
  return 0;
}

}  // namespace strata::benchmarks
