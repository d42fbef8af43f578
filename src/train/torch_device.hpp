// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

/// Conversions between devices and streams of Strata and libtorch.
namespace strata::train {

at::Device torch_device(Device device);

/// Makes a new stream libtorch's current one for this thread, so that nothing runs on the legacy default
/// stream. Does nothing on the cpu.
void use_own_stream(Device device);

/// Makes `stream` libtorch's current one for this thread; it must outlive this use. Does nothing on the cpu.
void use_stream(const cuda::Stream& stream);

/// Returns to the GPU the memory that libtorch keeps for reuse. REQUIRES: no work of libtorch is under way.
void return_torch_memory();

/// libtorch's current stream of this thread; a view.
cuda::Stream current_stream(Device device);

/// A tensor over memory that somebody else owns: [rows, cols] f32 on `device`.
at::Tensor wrap_rows(const float* data, Count rows, Count cols, Device device);
at::Tensor wrap_words(const std::int32_t* data, Count rows, Count cols, Device device);  ///< i32

/// The most bytes of the GPU that libtorch has held; 0 on the cpu.
std::int64_t peak_torch_device_bytes(Device device);

}  // namespace strata::train
