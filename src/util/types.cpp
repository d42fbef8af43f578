// SPDX-License-Identifier: Apache-2.0
#include "strata/util/types.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "strata/util/error.hpp"

namespace strata {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"f32", "f16", "bf16", "f64", "i8", "u8", "i32", "i64"};

}  // namespace

std::string_view name_of(DType type) { return kNames[at(type)]; }

DType parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  throw InputError(fmt::format("\"{}\" is not an element type", name),
                   "Use f32, f16, bf16, f64, i8, u8, i32 or i64.");
}

float f16_to_f32(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  std::uint32_t exponent = (bits >> 10) & 0x1Fu, mantissa = bits & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;  // subnormal
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t f32_to_f16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7E00u;
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // rounds beyond 65504
  if (magnitude < 0x38800000u) {  // subnormal in f16: let the FPU round at the right bit
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) - 0x3F000000u);
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return sign | static_cast<std::uint16_t>((magnitude - 0x38000000u + 0xFFFu + odd) >> 13);
}

std::uint16_t f32_to_bf16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace strata
