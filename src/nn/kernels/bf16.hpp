// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstring>

#include "strata/util/random.hpp"

namespace strata::nn {

/// The upper half of an f32, with the memory layout of at::BFloat16. It is a type of its own, so that loops
/// over it vectorize and the same code runs on GPUs.
struct Bf16 {
  std::uint16_t bits = 0;
};

STRATA_HOST_DEVICE inline float to_f32(float value) { return value; }
STRATA_HOST_DEVICE inline float to_f32(Bf16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

/// Rounds to nearest, ties to even; NaN stays NaN.
template <typename T>
STRATA_HOST_DEVICE inline T from_f32(float value);
template <>
STRATA_HOST_DEVICE inline float from_f32<float>(float value) {
  return value;
}
template <>
STRATA_HOST_DEVICE inline Bf16 from_f32<Bf16>(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<std::uint16_t>(value != value ? 0x7fc0u : rounded)};
}

}  // namespace strata::nn
