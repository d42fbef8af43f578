// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "place_rows.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::feature {
namespace {

constexpr int kThreads = 256;

// Reads pinned host memory in order, so the PCIe link is the limit (50 GB/s: 1 M rows of 512 B in 10 ms) and
// a few blocks suffice.
template <typename Pack>
__global__ void __launch_bounds__(kThreads) scatter_rows(const Pack* rows, const std::int32_t* positions,
                                                         Count total, Count packs_per_row, Pack* out) {
  const Count stride = Count{gridDim.x} * blockDim.x;
  for (Count i = Count{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += stride) {
    const Count row = i / packs_per_row, pack = i - row * packs_per_row;
    if (positions[row] < 0) continue;
    out[positions[row] * packs_per_row + pack] = rows[i];
  }
}

template <typename Pack>
bool fits(const ArrivedRows& arrived, const float* out) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % sizeof(Pack) == 0; };
  return arrived.cols * static_cast<Count>(sizeof(float)) % static_cast<Count>(sizeof(Pack)) == 0 &&
         aligned(out) && aligned(arrived.rows);
}

template <typename Pack>
void launch(const ArrivedRows& arrived, float* out, const cuda::Stream& stream) {
  const Count packs_per_row =
      arrived.cols * static_cast<Count>(sizeof(float)) / static_cast<Count>(sizeof(Pack));
  const Count total = arrived.count * packs_per_row;
  constexpr Count kMaxBlocks = 512;
  const Count blocks = std::min(kMaxBlocks, (total + kThreads - 1) / kThreads);
  scatter_rows<Pack><<<static_cast<unsigned>(blocks), kThreads, 0, stream.get()>>>(
      reinterpret_cast<const Pack*>(arrived.rows), arrived.positions, total, packs_per_row,
      reinterpret_cast<Pack*>(out));
  cuda::check_launch("scatter_rows");
}

}  // namespace

void place_rows_on_gpu(const ArrivedRows& arrived, float* out, const cuda::Stream& stream) {
  if (arrived.count == 0) return;
  const cuda::DeviceGuard guard(stream.device());
  if (fits<float4>(arrived, out)) return launch<float4>(arrived, out, stream);
  if (fits<float2>(arrived, out)) return launch<float2>(arrived, out, stream);
  launch<float>(arrived, out, stream);
}

}  // namespace strata::feature
