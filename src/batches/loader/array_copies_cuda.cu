// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "loader/array_copies.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/kernels.cuh"

namespace strata::batches {
namespace {

using cuda::kThreads;

constexpr int kMostCopies = 64;                  // of a launch, whose arguments are at most 4 KB
constexpr Count kBytesOfBlock = 128 * kThreads;  // eight loads of 16 bytes per thread

struct Launch {
  ArrayCopy copies[kMostCopies];
  std::uint32_t first_block[kMostCopies + 1];
};

/// Words [begin, end) of arrays, in bytes; the last ones may be fewer than a word.
template <typename Word>
__device__ void copy_words(const ArrayCopy& copy, Count begin, Count end) {
  constexpr auto kBytes = static_cast<Count>(sizeof(Word));
#pragma unroll 8
  for (Count i = begin / kBytes + threadIdx.x; i < end / kBytes; i += kThreads)
    static_cast<Word*>(copy.to)[i] = static_cast<const Word*>(copy.from)[i];
}

// Each block has a piece of one array.
__global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ Launch launch) {
  int c = 0;
  while (blockIdx.x >= launch.first_block[c + 1]) ++c;
  const ArrayCopy& copy = launch.copies[c];
  const Count begin = static_cast<Count>(blockIdx.x - launch.first_block[c]) * kBytesOfBlock;
  const Count end = min(copy.bytes, begin + kBytesOfBlock);
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(copy.to) | reinterpret_cast<std::uintptr_t>(copy.from);
  if (addresses % sizeof(uint4) != 0) return copy_words<std::uint32_t>(copy, begin, end);
  copy_words<uint4>(copy, begin, end);
  copy_words<std::uint32_t>(copy, end / static_cast<Count>(sizeof(uint4)) * static_cast<Count>(sizeof(uint4)),
                            end);
}

void launch_copies(std::span<const ArrayCopy> copies, const cuda::Stream& stream) {
  Launch launch{};
  for (std::size_t c = 0; c < copies.size(); ++c) {
    launch.copies[c] = copies[c];
    const Count blocks = (copies[c].bytes + kBytesOfBlock - 1) / kBytesOfBlock;
    launch.first_block[c + 1] = launch.first_block[c] + static_cast<std::uint32_t>(blocks);
  }
  const std::uint32_t blocks = launch.first_block[copies.size()];
  if (blocks == 0) return;
  copy_kernel<<<blocks, kThreads, 0, stream.get()>>>(launch);
  cuda::check_launch("copy_arrays");
}

}  // namespace

void copy_arrays_on_gpu(std::span<const ArrayCopy> copies, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  for (std::size_t first = 0; first < copies.size(); first += kMostCopies)
    launch_copies(copies.subspan(first, std::min<std::size_t>(kMostCopies, copies.size() - first)), stream);
}

}  // namespace strata::batches
