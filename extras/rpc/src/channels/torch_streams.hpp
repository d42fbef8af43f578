// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <functional>

#include "strata/cuda/stream.hpp"

/// libtorch's streams and memory on any kind of device, without its headers for CUDA.
namespace strata::rpc {

c10::Device torch_device(Device device);

/// A stream of libtorch's, which outlives all tensors that it was used for. Others may use it, too. Its
/// work goes before that of streams of the usual priority.
c10::Stream pool_stream(Device device);
cuda::Stream borrowed(Device device, const c10::Stream& stream);
cuda::Stream current_stream(Device device);

/// Memory of libtorch's that nothing but earlier work of `stream` may still use.
at::Tensor empty_on(const c10::Stream& stream, at::IntArrayRef sizes, at::ScalarType dtype);

/// Later, another current stream waits for what `stream` has been given to do so far, and a tensor's memory
/// for that other stream. Null on the CPU.
std::function<void(const at::Tensor&)> wait_for(const c10::Stream& stream);

}  // namespace strata::rpc
