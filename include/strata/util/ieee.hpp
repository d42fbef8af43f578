// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/random.hpp"

#if !defined(__CUDA_ARCH__)
#include <bit>
#endif

/// Single IEEE operations, rounded to nearest whatever happens to their results: the same bits on CPU and
/// GPU. Host code is compiled without contraction; device code names the rounding.
namespace strata::ieee {

STRATA_HOST_DEVICE inline float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
STRATA_HOST_DEVICE inline float sum(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
STRATA_HOST_DEVICE inline float quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
STRATA_HOST_DEVICE inline float nearest(std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  return __ull2float_rn(value);
#else
  return static_cast<float>(value);
#endif
}
STRATA_HOST_DEVICE inline std::uint32_t bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}
STRATA_HOST_DEVICE inline float of_bits(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

}  // namespace strata::ieee
