// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata {

/// How rows of floats are stored in fewer bits. A value; copies share the codebooks.
///
/// A row is a run of 32-bit words (little endian), so that rows can be read word by word wherever they begin:
///
///     kind  bytes per row         contents, and zeros up to the next word
///     i8    4 + 4 ceil(cols / 4)  scale (f32), then a byte per column
///     e4m3  4 + 4 ceil(cols / 4)  scale (f32), then a byte per column
///     i4    4 + 4 ceil(cols / 8)  scale (f32), then a byte per 2 columns, the first in its lower half
///     vq    4 ceil(cols / 16)     a byte per 4 columns: which entry of their codebook
///
/// 128 columns take 132, 68 and 32 bytes; f32 takes 512. i8 and i4 are symmetric: an element is q * scale,
/// where scale = max |x| / 127 (7 for i4), rounded up to 16 significant bits, and q is x / scale rounded to
/// nearest even. So q * scale is exact in f32, and rows that were decoded have the same code again. The row
/// {0.5, -2, 1} in i8 has the scale 0.0157485 and the bytes {32, -127, 63, 0}, which are read as
/// {0.5040, -2.0001, 0.9922}. e4m3 is the FP8 format of that name (Micikevicius et al., "FP8 formats for deep
/// learning", 2022): four bits of significand whatever the magnitude, where the scale is the least power of
/// two with which no element exceeds 448, so that rows of FP8 stay what they are. vq (product quantisation: Jégou et al., "Product quantization for nearest
/// neighbor search", 2011) reads columns 4g to 4g + 3 from entry `byte g` of codebook g.
struct RowCode {
  enum class Kind : std::uint8_t { none, i8, i4, vq, e4m3 };
  static constexpr Count kGroupCols = 4;  ///< columns that share a codebook
  static constexpr Count kEntries = 256;  ///< of a codebook

  Kind kind = Kind::none;
  Count cols = 0;
  /// Codebooks of vq: [num_groups(), kEntries, kGroupCols]; zeros beyond `cols`.
  std::shared_ptr<const std::vector<float>> codebooks = {};

  /// Whether rows have a code. Otherwise they are elements of a DType, and nothing below may be called.
  explicit operator bool() const { return kind != Kind::none; }
  bool is_scaled() const { return kind != Kind::none && kind != Kind::vq; }
  Count num_groups() const { return (cols + kGroupCols - 1) / kGroupCols; }
  Count row_bytes() const;

  /// row [cols], finite; code [row_bytes()], of any alignment. Thread safe, as is decode().
  void encode(const float* row, std::byte* code) const;
  /// The same bits on every machine, and on GPUs. Bits beyond the row's end are ignored.
  void decode(const std::byte* code, float* row) const;
  /// Whether all elements are finite, which damaged rows may not be.
  bool is_finite(const std::byte* code) const;
};

std::string_view name_of(RowCode::Kind kind);     ///< "i8"; empty for none
RowCode::Kind code_named(std::string_view name);  ///< none if no kind is called so

/// Codebooks for vq: k-means (Lloyd) within each group of columns, which begins with distinct rows.
///
/// rows [num_rows, cols], finite: a sample of the table, of which 16,384 rows suffice. The result depends
/// only on the arguments. Values that occur in at most 256 combinations per group are kept exactly.
RowCode train_vector_code(const float* rows, Count num_rows, Count cols, std::uint64_t seed,
                          ThreadPool& pool);

}  // namespace strata

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

/// The element that a byte of e4m3 stands for. NaN, which no code has, is read as 480.
STRATA_HOST_DEVICE inline float e4m3(std::uint32_t byte) {
  constexpr std::uint32_t kImplied = 8, kMantissaBits = 3;  // bits of f32 that follow are zeros
  const std::uint32_t magnitude = byte & 0x7FU, sign = (byte & 0x80U) << 24U;
  const float value = magnitude < kImplied
                          ? product(static_cast<float>(magnitude), 0x1p-9F)
                          : of_bits((magnitude << (23U - kMantissaBits)) + ((127U - 7U) << 23U));
  return of_bits(bits_of(value) | sign);
}

}  // namespace strata::ieee
