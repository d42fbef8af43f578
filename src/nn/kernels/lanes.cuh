// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/bf16.hpp"
#include "strata/cuda/kernels.cuh"
#include "strata/util/types.hpp"

/// Rows that groups of threads read; each thread takes some consecutive columns at once.
namespace strata::nn {

/// Width consecutive values of a row in registers; one load or store of at most 16 bytes.
template <typename T, int Width>
struct alignas(sizeof(T) * Width) Pack {
  T value[Width];

  __device__ static Pack load(const T* address) { return *reinterpret_cast<const Pack*>(address); }
  /// Loads from memory that the kernel does not write.
  __device__ static Pack load_constant(const T* address) {
    const auto raw = __ldg(reinterpret_cast<const typename cuda::Word<sizeof(T) * Width>::Type*>(address));
    Pack pack;
    memcpy(&pack, &raw, sizeof(pack));
    return pack;
  }
  __device__ static Pack filled(T with) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < Width; ++i) pack.value[i] = with;
    return pack;
  }
  __device__ void store(T* address) const { *reinterpret_cast<Pack*>(address) = *this; }
};

template <int Width>
using Floats = Pack<float, Width>;

/// Width columns of a row as f32, by loads or stores of at most 16 bytes.
template <int Width, typename T>
__device__ inline Floats<Width> load_as_f32(const T* address) {
  using Part = Pack<T, std::min<int>(Width, 16 / sizeof(T))>;
  constexpr int kSize = sizeof(Part) / sizeof(T);
  Floats<Width> floats;
#pragma unroll
  for (int first = 0; first < Width; first += kSize) {
    const Part part = Part::load(address + first);
#pragma unroll
    for (int i = 0; i < kSize; ++i) floats.value[first + i] = to_f32(part.value[i]);
  }
  return floats;
}
template <int Width, typename T>
__device__ inline void store_f32(const Floats<Width>& floats, T* address) {
  using Part = Pack<T, std::min<int>(Width, 16 / sizeof(T))>;
  constexpr int kSize = sizeof(Part) / sizeof(T);
#pragma unroll
  for (int first = 0; first < Width; first += kSize) {
    Part part;
#pragma unroll
    for (int i = 0; i < kSize; ++i) part.value[i] = from_f32<T>(floats.value[first + i]);
    part.store(address + first);
  }
}

template <int Width>
__device__ inline float dot(const Floats<Width>& a, const Floats<Width>& b, float sum) {
#pragma unroll
  for (int i = 0; i < Width; ++i) sum += a.value[i] * b.value[i];
  return sum;
}

template <int Width>
__device__ inline void add_scaled(Floats<Width>& to, const Floats<Width>& from, float scale) {
#pragma unroll
  for (int i = 0; i < Width; ++i) to.value[i] += scale * from.value[i];
}

/// The sum over a group of Lanes neighboring threads, with the same bits in each.
template <int Lanes>
__device__ inline float sum_of_group(float value) {
  const unsigned group = (threadIdx.x & 31u) & ~(static_cast<unsigned>(Lanes) - 1u);
  const unsigned mask = (Lanes == 32 ? ~0u : (1u << Lanes) - 1u) << group;
#pragma unroll
  for (int distance = Lanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(mask, value, distance);
  return value;
}

/// Whether a load may take `width` columns: it must divide the row's length, and all tables must be aligned
/// to it.
template <typename... Elements>
bool pack_fits(int width, Count cols, const Elements*... tables) {
  return cols % width == 0 && (... && (reinterpret_cast<std::uintptr_t>(tables) %
                                           (static_cast<std::size_t>(width) * sizeof(Elements)) ==
                                       0));
}

template <typename... Elements>
int pack_width(Count cols, const Elements*... tables) {
  for (const int width : {4, 2}) {
    if (pack_fits(width, cols, tables...)) return width;
  }
  return 1;
}

/// Calls launch.template operator()<Width, Lanes>() with the smallest number of lanes out of 4, 8, 16 and 32
/// that takes `cols` columns at once, else 32.
template <int Width, typename Launch>
void with_lanes(Count cols, const Launch& launch) {
  const Count wanted = (cols + Width - 1) / Width;
  if (wanted <= 4) return launch.template operator()<Width, 4>();
  if (wanted <= 8) return launch.template operator()<Width, 8>();
  if (wanted <= 16) return launch.template operator()<Width, 16>();
  launch.template operator()<Width, 32>();
}

template <typename Launch>
void with_width_and_lanes(int width, Count cols, const Launch& launch) {
  if (width == 4) return with_lanes<4>(cols, launch);
  if (width == 2) return with_lanes<2>(cols, launch);
  with_lanes<1>(cols, launch);
}

/// The same with the widest loads of rows of T that fit all tables.
template <typename T, typename Launch, typename... Elements>
void with_widest_packs(Count cols, const Launch& launch, const Elements*... tables) {
  if constexpr (sizeof(T) == 2) {  // eight elements fill a load of 16 bytes
    if (pack_fits(8, cols, tables...)) return with_lanes<8>(cols, launch);
  }
  with_width_and_lanes(pack_width(cols, tables...), cols, launch);
}

}  // namespace strata::nn
