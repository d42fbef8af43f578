// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "row_access_cuda.cuh"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {
namespace {

// Reads the ids once; a block adds to each sum once.
__global__ void __launch_bounds__(kThreads)
    count_entries(const __grid_constant__ RowTable table, const __grid_constant__ RowList list,
                  unsigned long long* counts) {
  __shared__ unsigned sums[kGpuStrata];
  if (threadIdx.x < kGpuStrata) sums[threadIdx.x] = 0;
  __syncthreads();
  const Count end = list.end != nullptr ? min(*list.end, list.bound) : list.bound;
  unsigned own[kGpuStrata] = {};
  for (Count i = blockIdx.x * Count{kThreads} + threadIdx.x; i < end; i += Count{gridDim.x} * kThreads) {
    const Count row = id_of(list, i) - list.first;
    if (!is_row(table, row)) continue;
    const Stratum stratum = location_of(table, row).stratum;
    for (int s = 0; s < kGpuStrata; ++s) own[s] += static_cast<int>(stratum) == s;
  }
  for (int s = 0; s < kGpuStrata; ++s) {
    const unsigned sum = __reduce_add_sync(0xffffffffu, own[s]);
    if (threadIdx.x % 32 == 0 && sum > 0) atomicAdd(&sums[s], sum);
  }
  __syncthreads();
  if (threadIdx.x < kGpuStrata && sums[threadIdx.x] > 0)
    atomicAdd(&counts[threadIdx.x], static_cast<unsigned long long>(sums[threadIdx.x]));
}

constexpr Count kIdsPerThread = 4;
constexpr Count kMaxBlocks = 512;

}  // namespace

void count_strata_on_gpu(const RowTable& table, const RowList& list, Count* counts,
                         const cuda::Stream& stream) {
  if (list.bound == 0) return;
  static_assert(sizeof(Count) == sizeof(unsigned long long));
  const cuda::DeviceGuard guard(stream.device());
  const Count blocks = std::clamp<Count>(list.bound / (kThreads * kIdsPerThread), 1, kMaxBlocks);
  count_entries<<<static_cast<unsigned>(blocks), kThreads, 0, stream.get()>>>(
      table, list, reinterpret_cast<unsigned long long*>(counts));
  cuda::check_launch("count_entries");
}

}  // namespace strata::tensor
