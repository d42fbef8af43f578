// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cache/fill_adjacency_cache.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::store {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr Count kMostBlocks = 132 * 16;  // two waves of eight resident blocks per SM of an H200

// One warp per list, so that lists on the host are read in the order in which they lie there.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    copy_each(const __grid_constant__ ListSource source, Range replicated, Range striped) {
  const T* const data = static_cast<const T*>(source.data);
  const Count first_warp = (static_cast<Count>(blockIdx.x) * kThreads + threadIdx.x) / kWarp,
              num_warps = static_cast<Count>(gridDim.x) * kThreads / kWarp;
  for (Count node = replicated.first + first_warp; node < replicated.end(); node += num_warps) {
    const Count begin = source.indptr[node], degree = source.indptr[node + 1] - begin;
    const Count copy = position_of_list(source.copies, source.indptr, node, begin);
    if (copy < source.entries.first) continue;
    const bool is_striped = copy - source.entries.first >= source.entries.num_replicated;
    if (is_striped && (node < striped.first || node >= striped.end())) continue;
    for (Count i = threadIdx.x % kWarp; i < degree; i += kWarp)
      *const_cast<T*>(entry(data, source.entries, copy + i)) = data[begin + i];
  }
}

}  // namespace

void fill_adjacency_cache(const ListSource& source, const Range& replicated, const Range& striped,
                          const cuda::Stream& stream) {
  if (replicated.count == 0) return;
  const cuda::DeviceGuard guard(stream.device());
  const auto blocks =
      static_cast<unsigned>(std::clamp<Count>(replicated.count / (kThreads / kWarp), 1, kMostBlocks));
  if (source.wide) {
    copy_each<std::int64_t><<<blocks, kThreads, 0, stream.get()>>>(source, replicated, striped);
  } else {
    copy_each<std::int32_t><<<blocks, kThreads, 0, stream.get()>>>(source, replicated, striped);
  }
  cuda::check_launch("copy_each");
}

}  // namespace strata::store
