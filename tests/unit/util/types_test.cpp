// SPDX-License-Identifier: Apache-2.0
#include "strata/util/types.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/expect_error.hpp"

namespace strata {
namespace {

/// A 16-bit float by the book: value = mantissa * 2^exponent, in f64, where all of them are exact.
struct Format {
  int mantissa_bits, bias;

  double decode(std::uint16_t bits) const {
    const int exponent_bits = 15 - mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) {
      return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    }
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
};
constexpr Format kF16{10, 15}, kBf16{7, 127};

/// Rounds to nearest, ties to even, by searching all finite values of a format.
class NaiveRounder {
 public:
  explicit NaiveRounder(Format format) : format_(format) {
    for (std::uint16_t bits = 0; !std::isinf(format.decode(bits)); ++bits)
      values_.push_back(format.decode(bits));
  }
  /// REQUIRES: value is not NaN.
  std::uint16_t encode(float value) const {
    const double magnitude = std::abs(static_cast<double>(value));
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    // Beyond the largest value, infinity stands where the next one would.
    const double last = values_.back(), step = last - values_[values_.size() - 2];
    const double high = above == values_.end() ? last + step : *above;
    auto bits = static_cast<std::uint16_t>(above - values_.begin());
    if (high != magnitude && bits > 0 && magnitude < last + step) {
      const double down = magnitude - values_[bits - 1u], up = high - magnitude;
      if (down < up || (down == up && (bits & 1) != 0)) --bits;
    }
    return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
  }

 private:
  Format format_;
  std::vector<double> values_;
};

bool same(float value, double wanted) {
  if (std::isnan(wanted)) return std::isnan(value);
  return static_cast<double>(value) == wanted && std::signbit(value) == std::signbit(wanted);
}

TEST(Conversions, DecodeEveryPattern) {
  for (int pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    ASSERT_TRUE(same(f16_to_f32(bits), kF16.decode(bits))) << "f16 " << pattern;
    ASSERT_TRUE(same(bf16_to_f32(bits), kBf16.decode(bits))) << "bf16 " << pattern;
  }
}

TEST(Conversions, ReturnEveryPattern) {
  for (int pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    if (std::isnan(kF16.decode(bits))) {
      ASSERT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f16_to_f32(bits))))) << pattern;
    } else {
      ASSERT_EQ(f32_to_f16(f16_to_f32(bits)), bits);
    }
    if (std::isnan(kBf16.decode(bits))) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(bf16_to_f32(bits))))) << pattern;
    } else {
      ASSERT_EQ(f32_to_bf16(bf16_to_f32(bits)), bits);
    }
  }
}

void expect_rounds(float value, const NaiveRounder& f16, const NaiveRounder& bf16) {
  ASSERT_EQ(f32_to_f16(value), f16.encode(value)) << "f16 of " << value;
  ASSERT_EQ(f32_to_bf16(value), bf16.encode(value)) << "bf16 of " << value;
}

TEST(Conversions, RoundToNearestEven) {
  const NaiveRounder f16(kF16), bf16(kBf16);
  std::mt19937 random(11);
  std::uniform_int_distribution<std::uint32_t> any;
  // Where f16 has values at all: exponents from half its least subnormal to beyond its largest.
  std::uniform_int_distribution<std::uint32_t> exponent(127 - 27, 127 + 17);
  for (int i = 0; i < 300000; ++i) {
    const std::uint32_t bits = any(random);
    const float everywhere = std::bit_cast<float>(bits);
    if (!std::isnan(everywhere)) expect_rounds(everywhere, f16, bf16);
    expect_rounds(std::bit_cast<float>((bits & 0x807FFFFFu) | (exponent(random) << 23)), f16, bf16);
    if (HasFatalFailure()) return;
  }
}

TEST(Conversions, RoundTiesAndTheirNeighbors) {
  const NaiveRounder f16(kF16), bf16(kBf16);
  for (const Format format : {kF16, kBf16}) {
    for (std::uint16_t bits = 0; !std::isinf(format.decode(bits)); ++bits) {
      const double next = format.decode(static_cast<std::uint16_t>(bits + 1));
      const double here = format.decode(bits);
      if (std::isinf(next)) continue;
      const auto middle = static_cast<float>((here + next) / 2);  // exact: one bit more
      for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)}) {
        expect_rounds(value, f16, bf16);
        expect_rounds(-value, f16, bf16);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Conversions, OverflowToInfinity) {
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xFC00);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(f32_to_bf16(-INFINITY), 0xFF80);
}

TEST(Conversions, KeepNotANumber) {
  for (const std::uint32_t bits : {0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu}) {
    const float value = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(kF16.decode(f32_to_f16(value)))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(kBf16.decode(f32_to_bf16(value)))) << std::hex << bits;
  }
}

TEST(DTypes, HaveNamesAndSizes) {
  const std::vector<std::size_t> sizes = {4, 2, 2, 8, 1, 1, 4, 8};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(size_of(type), sizes[i]) << name_of(type);
    EXPECT_EQ(parse_dtype(name_of(type)), type);
  }
  test::expect_error([] { parse_dtype("float"); }, {"\"float\"", "f32, f16, bf16"});
  test::expect_error([] { parse_dtype(""); }, {"\"\""});
}

TEST(IdSpan, ReadsBothWidths) {
  const std::vector<std::int32_t> narrow = {1, -2, 3};
  const std::vector<std::int64_t> wide = {1, -2, std::int64_t{1} << 40};
  const IdSpan a{narrow.data(), 3, false}, b{wide.data(), 3, true};
  EXPECT_EQ(a[1], -2);
  EXPECT_EQ(b[2], std::int64_t{1} << 40);
  EXPECT_EQ(a.visit([](const auto* ids) { return sizeof *ids; }), 4u);
  EXPECT_EQ(b.visit([](const auto* ids) { return sizeof *ids; }), 8u);
}

TEST(Device, NamesItself) {
  EXPECT_EQ(Device{}.str(), "cpu");
  EXPECT_EQ((Device{Device::Kind::cuda, 3}.str()), "cuda:3");
}

}  // namespace
}  // namespace strata
