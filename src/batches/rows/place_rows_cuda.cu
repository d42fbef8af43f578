// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "rows/place_rows.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::batches {
namespace {

constexpr int kThreads = 256;

/// Neighboring f32 as they are.
template <typename Pack>
struct Same {
  using In = Pack;
  using Out = Pack;
  static __device__ Out converted(const In& in) { return in; }
};

__device__ float low_to_float(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ float high_to_float(std::uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }

/// 1, 2 or 4 neighboring bf16 that become f32.
struct Widened1 {
  using In = unsigned short;
  using Out = float;
  static __device__ Out converted(In in) { return low_to_float(in); }
};
struct Widened2 {
  using In = unsigned int;
  using Out = float2;
  static __device__ Out converted(In in) { return {low_to_float(in), high_to_float(in)}; }
};
struct Widened4 {
  using In = uint2;
  using Out = float4;
  static __device__ Out converted(const In& in) {
    return {low_to_float(in.x), high_to_float(in.x), low_to_float(in.y), high_to_float(in.y)};
  }
};

// Reads pinned host memory in order, so the PCIe link is the limit (50 GB/s: 1 M rows of 512 B in 10 ms) and
// a few blocks suffice.
template <typename Codec>
__global__ void __launch_bounds__(kThreads)
    scatter_rows(const typename Codec::In* rows, const std::int32_t* positions, Count total,
                 Count packs_per_row, typename Codec::Out* out) {
  const Count stride = Count{gridDim.x} * blockDim.x;
  for (Count i = Count{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += stride) {
    const Count row = i / packs_per_row, pack = i - row * packs_per_row;
    if (positions[row] < 0) continue;
    out[positions[row] * packs_per_row + pack] = Codec::converted(rows[i]);
  }
}

template <typename Codec>
constexpr Count kElements = sizeof(typename Codec::Out) / sizeof(float);

template <typename Codec>
bool fits(const ArrivedRows& arrived, const float* out) {
  const auto aligned = [](const void* p, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
  };
  return arrived.cols % kElements<Codec> == 0 && aligned(out, sizeof(typename Codec::Out)) &&
         aligned(arrived.rows, sizeof(typename Codec::In));
}

template <typename Codec>
void launch(const ArrivedRows& arrived, float* out, const cuda::Stream& stream) {
  const Count packs_per_row = arrived.cols / kElements<Codec>;
  const Count total = arrived.count * packs_per_row;
  constexpr Count kMaxBlocks = 512;
  const Count blocks = std::min(kMaxBlocks, (total + kThreads - 1) / kThreads);
  scatter_rows<Codec><<<static_cast<unsigned>(blocks), kThreads, 0, stream.get()>>>(
      static_cast<const typename Codec::In*>(arrived.rows), arrived.positions, total, packs_per_row,
      reinterpret_cast<typename Codec::Out*>(out));
  cuda::check_launch("scatter_rows");
}

template <typename Four, typename Two, typename One>
void launch_widest_that_fits(const ArrivedRows& arrived, float* out, const cuda::Stream& stream) {
  if (fits<Four>(arrived, out)) return launch<Four>(arrived, out, stream);
  if (fits<Two>(arrived, out)) return launch<Two>(arrived, out, stream);
  launch<One>(arrived, out, stream);
}

}  // namespace

void place_rows_on_gpu(const ArrivedRows& arrived, float* out, const cuda::Stream& stream) {
  if (arrived.count == 0) return;
  const cuda::DeviceGuard guard(stream.device());
  if (arrived.dtype == DType::bf16)
    return launch_widest_that_fits<Widened4, Widened2, Widened1>(arrived, out, stream);
  launch_widest_that_fits<Same<float4>, Same<float2>, Same<float>>(arrived, out, stream);
}

}  // namespace strata::batches
