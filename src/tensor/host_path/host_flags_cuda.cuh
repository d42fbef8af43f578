// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cuda/atomic>

/// Flags in pinned memory with which kernels and CPU threads signal each other. Only for .cu files.
namespace strata::tensor {

using SystemFlag = ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_system>;

/// Raises a flag. Threads that see it also see what the calling thread wrote, or saw after a barrier.
__device__ inline void raise_flag(std::uint64_t* flag, std::uint64_t value) {
  SystemFlag(*flag).store(value, ::cuda::std::memory_order_release);
}

__device__ inline void wait_for_flag(std::uint64_t* flag, std::uint64_t value) {
  constexpr unsigned kPollNs = 100;
  while (SystemFlag(*flag).load(::cuda::std::memory_order_acquire) != value) __nanosleep(kPollNs);
}

}  // namespace strata::tensor
