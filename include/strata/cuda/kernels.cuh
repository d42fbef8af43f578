// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "strata/cuda/check.cuh"
#include "strata/util/types.hpp"

/// What kernels of several modules share: launch shapes, loops over items, searches and sums. Only for .cu
/// files.
namespace strata::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;
inline constexpr int kWarpsPerBlock = kThreads / kWarp;
inline constexpr unsigned kAllLanes = ~0u;

__device__ inline unsigned lane_index() { return threadIdx.x % kWarp; }
__device__ inline unsigned lanes_below() { return (1u << lane_index()) - 1u; }

/// Number of blocks for a loop over at most `bound` items. Every kernel loops with the grid's stride, so
/// fewer blocks are correct, too.
inline unsigned blocks_for(Count bound) {
  constexpr Count kMaxBlocks = 132 * 16;  // two waves of eight resident blocks per SM on an H200
  return static_cast<unsigned>(std::clamp<Count>((bound + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

template <typename Index>
__device__ Index first_item() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
template <typename Index>
__device__ Index item_stride() {
  return static_cast<Index>(gridDim.x) * blockDim.x;
}

/// The list that contains entry `e`: the last i with offsets[i] <= e. REQUIRES: offsets[0] <= e <
/// offsets[count].
__device__ inline Count list_of(const Count* offsets, Count count, Count e) {
  Count low = 0, high = count;  // offsets[low] <= e < offsets[high]
  while (high - low > 1) {
    const Count middle = low + (high - low) / 2;
    if (offsets[middle] <= e)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/// Adds the sum of `own` over the threads of a block to *total; does nothing if `total` is null. All threads
/// call it, once per kernel.
__device__ inline void add_to_total(Count* total, std::uint32_t own) {
  if (total == nullptr) return;
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  own = __reduce_add_sync(kAllLanes, own);
  if (lane_index() == 0 && own > 0) atomicAdd(&sum, static_cast<unsigned long long>(own));
  __syncthreads();
  if (threadIdx.x == 0 && sum > 0) atomicAdd(reinterpret_cast<unsigned long long*>(total), sum);
}

/// The type of one load or store of kBytes bytes. Only for .cu files.
template <int kBytes>
struct Word;
template <>
struct Word<1> {
  using Type = unsigned char;
};
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned int;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

}  // namespace strata::cuda
