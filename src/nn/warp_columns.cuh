#pragma once
#include <algorithm>

#include "bf16.hpp"
#include "lanes.cuh"
#include "strata/util/types.hpp"

/// Rows read by whole warps.
namespace strata::nn {

constexpr unsigned kWarp = 32;

__device__ inline unsigned lane() { return threadIdx.x % kWarp; }

__device__ inline Count first_warp() {
  return (static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
}
__device__ inline Count num_warps() { return static_cast<Count>(gridDim.x) * (blockDim.x / kWarp); }

/// The columns that a lane of a warp takes, as f32: kVectors packs of Width, 32 packs apart, from column
/// `base` on. In memory they are float or Bf16.
template <int Width, int kVectors>
struct Columns {
  Floats<Width> value[kVectors];

  __device__ static Columns zeros() {
    Columns columns;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) columns.value[v] = Floats<Width>::filled(0.0f);
    return columns;
  }
  __device__ static Count first(Count base, int v) { return base + (v * kWarp + lane()) * Width; }
  __device__ static constexpr Count span() { return static_cast<Count>(kVectors) * kWarp * Width; }

  template <typename T>
  __device__ static Columns load(const T* row, Count base, Count cols) {
    Columns columns = zeros();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (first(base, v) >= cols) continue;
      const auto pack = Pack<T, Width>::load(row + first(base, v));
#pragma unroll
      for (int i = 0; i < Width; ++i) columns.value[v].value[i] = to_f32(pack.value[i]);
    }
    return columns;
  }
  template <typename T>
  __device__ void store(T* row, Count base, Count cols) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (first(base, v) >= cols) continue;
      Pack<T, Width> pack;
#pragma unroll
      for (int i = 0; i < Width; ++i) pack.value[i] = from_f32<T>(value[v].value[i]);
      pack.store(row + first(base, v));
    }
  }
  __device__ void add(const Columns& other, float scale) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) add_scaled(value[v], other.value[v], scale);
  }
  __device__ void multiply(float scale) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < Width; ++i) value[v].value[i] *= scale;
    }
  }
  /// What a layer's ReLU and dropout let pass, which its output tells: times `scale` where that is above 0.
  __device__ void gate(const Columns& output, float scale) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < Width; ++i)
        value[v].value[i] = output.value[v].value[i] > 0.0f ? value[v].value[i] * scale : 0.0f;
    }
  }
  /// This lane's share of a dot product.
  __device__ float dot_share(const Columns& other) const {
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) sum = dot(value[v], other.value[v], sum);
    return sum;
  }
};

/// The blocks that give each row a warp, up to a bound.
inline unsigned blocks_for_rows(Count rows, int threads, Count most) {
  return static_cast<unsigned>(std::clamp<Count>((rows * kWarp + threads - 1) / threads, 1, most));
}

}  // namespace strata::nn
