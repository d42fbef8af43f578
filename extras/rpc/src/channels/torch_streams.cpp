// SPDX-License-Identifier: Apache-2.0
#include "channels/torch_streams.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <utility>

namespace strata::rpc {

c10::Device torch_device(Device device) {
  return {device.is_cuda() ? c10::kCUDA : c10::kCPU,
          static_cast<c10::DeviceIndex>(device.is_cuda() ? device.index : -1)};
}

c10::Stream pool_stream(Device device) {
  const c10::impl::VirtualGuardImpl guard(torch_device(device).type());
  return device.is_cuda() ? guard.getStreamFromGlobalPool(torch_device(device), true)
                          : guard.getStream(torch_device(device));
}

cuda::Stream borrowed(Device device, const c10::Stream& stream) {
  if (!device.is_cuda()) return {};
  void* const handle = c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamNativeHandle(stream);
  return cuda::Stream::borrow(device, static_cast<CUstream_st*>(handle));
}

cuda::Stream current_stream(Device device) {
  return borrowed(device, c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(torch_device(device)));
}

at::Tensor empty_on(const c10::Stream& stream, at::IntArrayRef sizes, at::ScalarType dtype) {
  const c10::StreamGuard on_stream(stream);
  return at::empty(sizes, at::TensorOptions(dtype).device(stream.device()));
}

std::function<void(const at::Tensor&)> wait_for(const c10::Stream& stream) {
  if (!stream.device().is_cuda()) return nullptr;
  auto event = std::make_shared<c10::Event>(c10::kCUDA);
  event->record(stream);
  return [made = std::move(event)](const at::Tensor& values) {
    const c10::impl::VirtualGuardImpl device(c10::kCUDA);
    const c10::Stream current = device.getStream(values.device());
    made->block(current);
    if (values.has_storage()) device.recordDataPtrOnStream(values.storage().data_ptr(), current);
  };
}

}  // namespace strata::rpc
