// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "strata/cuda/kernels.cuh"
#include "strata/util/types.hpp"

/// The units that a kernel loads and stores at once: words of bytes as they are, or packs of elements that
/// change their type. Only for .cu files.
namespace strata::tensor {

/// Bytes as they are.
template <int kBytes>
struct Raw {
  using Bits = typename cuda::Word<kBytes>::Type;
  static constexpr int kIn = kBytes, kOut = kBytes;
  static __device__ void store(const Bits& bits, std::byte* out, float) {
    *reinterpret_cast<Bits*>(out) = bits;
  }
};

template <typename Element>
__device__ float to_float(Element value, float) {
  return static_cast<float>(value);
}
template <>
__device__ inline float to_float(__half value, float) {
  return __half2float(value);
}
template <>
__device__ inline float to_float(__nv_bfloat16 value, float) {
  return __bfloat162float(value);
}
template <>
__device__ inline float to_float(std::int8_t value, float scale) {
  return static_cast<float>(value) * scale;
}

template <int kBytes>
__device__ void store_words(const void* bytes, std::byte* out) {
  constexpr int kWord = kBytes < 16 ? kBytes : 16;
  using Bits = typename cuda::Word<kWord>::Type;
  Bits words[kBytes / kWord];
  memcpy(words, bytes, kBytes);
#pragma unroll
  for (int w = 0; w < kBytes / kWord; ++w) reinterpret_cast<Bits*>(out)[w] = words[w];
}

/// kWidth neighboring elements that become f32.
template <typename Element, int kWidth>
struct ToFloat {
  using Bits = typename cuda::Word<static_cast<int>(sizeof(Element)) * kWidth>::Type;
  static constexpr int kIn = static_cast<int>(sizeof(Element)) * kWidth, kOut = 4 * kWidth;
  static __device__ void store(const Bits& bits, std::byte* out, float scale) {
    Element elements[kWidth];
    memcpy(elements, &bits, sizeof(elements));
    float values[kWidth];
#pragma unroll
    for (int e = 0; e < kWidth; ++e) values[e] = to_float(elements[e], scale);
    store_words<kOut>(values, out);
  }
};

/// kWidth neighboring f32 or f16 that become bf16, rounded to nearest even.
template <typename Element, int kWidth>
struct ToBFloat {
  using Bits = typename cuda::Word<static_cast<int>(sizeof(Element)) * kWidth>::Type;
  static constexpr int kIn = static_cast<int>(sizeof(Element)) * kWidth, kOut = 2 * kWidth;
  static __device__ void store(const Bits& bits, std::byte* out, float scale) {
    Element elements[kWidth];
    memcpy(elements, &bits, sizeof(elements));
    __nv_bfloat16 values[kWidth];
#pragma unroll
    for (int e = 0; e < kWidth; ++e) values[e] = __float2bfloat16_rn(to_float(elements[e], scale));
    store_words<kOut>(values, out);
  }
};

/// Launches with the first codec that fits; fits<Codec>() and launch<Codec>() stand beside the kernels of
/// `Launch`. The last codec fits always.
template <typename Codec, typename... Narrower, typename Launch>
void launch_first_that_fits(const Launch& l) {
  if constexpr (sizeof...(Narrower) == 0) {
    launch<Codec>(l);
  } else {
    if (fits<Codec>(l)) return launch<Codec>(l);
    launch_first_that_fits<Narrower...>(l);
  }
}

}  // namespace strata::tensor
