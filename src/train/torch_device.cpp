// SPDX-License-Identifier: Apache-2.0
#include "torch_device.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "strata/cuda/stream.hpp"
#if STRATA_WITH_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace strata::train {

at::Device torch_device(Device device) {
  return device.is_cuda() ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index))
                          : at::Device(at::kCPU);
}

at::Tensor wrap_rows(const float* data, Count rows, Count cols, Device device) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(torch_device(device));
  if (cols == 0) return at::empty({rows, 0}, options);  // without data, from_blob() knows no GPU
  return at::from_blob(const_cast<float*>(data), {rows, cols}, options);
}

at::Tensor wrap_words(const std::int32_t* data, Count rows, Count cols, Device device) {
  return at::from_blob(const_cast<std::int32_t*>(data), {rows, cols},
                       at::TensorOptions().dtype(at::kInt).device(torch_device(device)));
}

#if STRATA_WITH_CUDA
void use_own_stream(Device device) {
  if (!device.is_cuda()) return;
  const auto index = static_cast<c10::DeviceIndex>(device.index);
  c10::cuda::set_device(index);
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, index));
}

void use_stream(const cuda::Stream& stream) {
  if (!stream.device().is_cuda()) return;
  const auto index = static_cast<c10::DeviceIndex>(stream.device().index);
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromExternal(stream.get(), index));
}

void return_torch_memory() {
  at::cuda::clearCublasWorkspaces();
  c10::cuda::CUDACachingAllocator::emptyCache();
}

cuda::Stream current_stream(Device device) {
  if (!device.is_cuda()) return {};
  return cuda::Stream::borrow(
      device, c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device.index)).stream());
}

std::int64_t peak_torch_device_bytes(Device device) {
  if (!device.is_cuda()) return 0;
  const auto stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device.index));
  return stats.reserved_bytes[0].peak;
}
#else
void use_own_stream(Device) {}
void use_stream(const cuda::Stream&) {}
void return_torch_memory() {}
cuda::Stream current_stream(Device) { return {}; }
std::int64_t peak_torch_device_bytes(Device) { return 0; }
#endif

}  // namespace strata::train
