// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "strata/util/types.hpp"

namespace strata::train {

/// A sum of f32 that does not depend on the order of its numbers, nor on how they are spread over ranks: it
/// adds up their mantissas as integers, those of each exponent apart. Up to 2^39 numbers.
class ExactSum {
 public:
  void add(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t exponent = (bits >> kMantissaBits) & 0xffu;
    std::int64_t mantissa = bits & ((1u << kMantissaBits) - 1);
    if (exponent > 0) mantissa |= std::int64_t{1} << kMantissaBits;
    if (exponent == kNotFinite) mantissa = 1;
    sums_[exponent] += bits >> 31 && exponent != kNotFinite ? -mantissa : mantissa;
  }
  /// The integers; sums over ranks add them up.
  std::span<std::int64_t> words() { return sums_; }
  /// NaN if a number was not finite.
  double value() const {
    if (sums_[kNotFinite] != 0) return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    for (std::size_t e = kNotFinite; e-- > 0;)
      sum += std::ldexp(static_cast<double>(sums_[e]), (e > 0 ? static_cast<int>(e) : 1) - kBias);
    return sum;
  }

 private:
  static constexpr int kMantissaBits = 23, kBias = 127 + kMantissaBits;
  static constexpr std::size_t kNotFinite = 255;
  std::array<std::int64_t, 256> sums_{};  ///< by exponent; of kNotFinite the count
};

}  // namespace strata::train
