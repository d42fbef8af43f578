// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "kernels/bf16.hpp"
#include "kernels/lanes.cuh"
#include "strata/util/types.hpp"

/// Rows that whole warps read.
namespace strata::nn {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = ~0u;

__device__ inline int lane() { return static_cast<int>(threadIdx.x % 32u); }

__device__ inline Count first_warp() {
  return (static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
}
__device__ inline Count num_warps() { return static_cast<Count>(gridDim.x) * (blockDim.x / kWarp); }

/// The N columns of a row that one lane of a warp takes, as f32: packs of kPack neighboring columns, with the
/// packs of neighboring lanes next to each other. In memory columns are float or Bf16, and kPack divides the
/// number of columns of a row. A warp takes kSpan columns at once, from column `base` on.
///
///     N = 4, kPack = 2: lane 0 has columns {0, 1, 64, 65}, lane 1 {2, 3, 66, 67}, ...
template <int N, int kPack>
struct Columns {
  static_assert(N % kPack == 0);
  static constexpr int kSize = N;
  static constexpr int kPackSize = kPack;
  static constexpr Count kSpan = static_cast<Count>(N) * kWarp;

  float value[N];

  __device__ static Count column(Count base, int i) {
    return base + (i / kPack * kWarp + lane()) * kPack + i % kPack;
  }
  __device__ static Columns zeros() {
    Columns columns;
#pragma unroll
    for (int i = 0; i < N; ++i) columns.value[i] = 0.0f;
    return columns;
  }

  template <typename T>
  __device__ static Columns load(const T* row, Count base, Count cols) {
    return load_by<T>(base, cols, [&](Count at) { return Pack<T, kWidth<T>>::load(row + at); });
  }
  /// Loads from memory that the kernel does not write.
  template <typename T>
  __device__ static Columns load_constant(const T* row, Count base, Count cols) {
    if constexpr (kPack == 1) return load(row, base, cols);
    return load_by<T>(base, cols, [&](Count at) { return Pack<T, kWidth<T>>::load_constant(row + at); });
  }
  template <typename T>
  __device__ void store(T* row, Count base, Count cols) const {
#pragma unroll
    for (int first = 0; first < N; first += kPack) {
      if (column(base, first) >= cols) continue;
#pragma unroll
      for (int part = first; part < first + kPack; part += kWidth<T>) {
        Pack<T, kWidth<T>> pack;
#pragma unroll
        for (int i = 0; i < kWidth<T>; ++i) pack.value[i] = from_f32<T>(value[part + i]);
        pack.store(row + column(base, part));
      }
    }
  }

  __device__ void add(const Columns& other, float scale) {
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] += scale * other.value[i];
  }
  __device__ void multiply(float scale) {
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] *= scale;
  }
  /// Multiplies by `scale` the values that a layer's ReLU and dropout let pass, which are those with an
  /// output above 0, and sets the others to 0.
  __device__ void gate(const Columns& output, float scale) {
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] = output.value[i] > 0.0f ? value[i] * scale : 0.0f;
  }
  /// This lane's share of a dot product.
  __device__ float dot_share(const Columns& other) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += value[i] * other.value[i];
    return sum;
  }

 private:
  template <typename T>
  static constexpr int kWidth = std::min<int>(kPack, 16 / sizeof(T));  // elements per load or store

  template <typename T, typename LoadPack>
  __device__ static Columns load_by(Count base, Count cols, const LoadPack& load_pack) {
    Columns columns = zeros();
#pragma unroll
    for (int first = 0; first < N; first += kPack) {
      if (column(base, first) >= cols) continue;
      Pack<T, kWidth<T>> packs[kPack / kWidth<T>];
#pragma unroll
      for (int p = 0; p < kPack / kWidth<T>; ++p) packs[p] = load_pack(column(base, first) + p * kWidth<T>);
#pragma unroll
      for (int i = 0; i < kPack; ++i)
        columns.value[first + i] = to_f32(packs[i / kWidth<T>].value[i % kWidth<T>]);
    }
    return columns;
  }
};

/// Number of blocks that give each row one warp, at most `most`.
inline unsigned blocks_for_rows(Count rows, int threads, Count most) {
  return static_cast<unsigned>(std::clamp<Count>((rows * kWarp + threads - 1) / threads, 1, most));
}

}  // namespace strata::nn
