// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

/// Between Strata's devices and streams and libtorch's.
namespace strata::train {

at::Device torch_device(Device device);

constexpr int kHighestPriority = -64;  ///< of a stream, as use_own_stream's has; clamped to what the GPU has

/// Makes a stream of its own libtorch's current one for this thread, so that nothing runs on the legacy
/// default stream. Nothing on the cpu.
void use_own_stream(Device device);

/// Makes `stream`, which must live on, libtorch's current one for this thread. Nothing on the cpu.
void use_stream(const cuda::Stream& stream);

/// Gives the GPU back what libtorch keeps for reuse. REQUIRES: nothing that libtorch did is under way.
void return_torch_memory();

/// libtorch's current stream of this thread; a view.
cuda::Stream current_stream(Device device);

/// A tensor over memory that somebody else owns: [rows, cols] f32 on `device`.
at::Tensor wrap_rows(const float* data, Count rows, Count cols, Device device);
at::Tensor wrap_words(const std::int32_t* data, Count rows, Count cols, Device device);  ///< i32

/// Libtorch's share of the GPU at its peak; 0 on the cpu.
std::int64_t peak_torch_device_bytes(Device device);

}  // namespace strata::train
