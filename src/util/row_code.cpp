// SPDX-License-Identifier: Apache-2.0
#include "strata/util/row_code.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "strata/util/error.hpp"

static_assert(std::endian::native == std::endian::little, "rows of codes are read as words");

namespace strata {
namespace {

constexpr Count kWord = 4;
constexpr Count words_for(Count bytes) { return (bytes + kWord - 1) / kWord * kWord; }

float largest_magnitude(const float* row, Count cols) {
  float largest = 0;
  for (Count c = 0; c < cols; ++c) largest = std::max(largest, std::abs(row[c]));
  return largest;
}

/// Rounded up to 16 significant bits: the product with 8 bits is then exact, and encoding what was decoded
/// gives the same code.
float rounded_up(float scale) {
  constexpr std::uint32_t kDropped = 0xFF;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(scale) + kDropped) & ~kDropped);
}

/// Calls put(column, q) with q in [-levels, levels], and returns the scale. A row whose scale would be
/// subnormal becomes zeros.
template <typename Put>
float quantize(const float* row, Count cols, float levels, Put&& put) {
  const float scale = rounded_up(largest_magnitude(row, cols) / levels);
  if (scale < std::numeric_limits<float>::min()) return 0;
  const float inverse = 1 / scale;
  for (Count c = 0; c < cols; ++c)
    put(c, static_cast<int>(std::clamp(std::nearbyint(row[c] * inverse), -levels, levels)));
  return scale;
}

/// The e4m3 of x, |x| <= 464, rounded to nearest even; a magnitude above 448 becomes 448.
std::byte e4m3_of(float x) {
  constexpr int kLeastExponent = -6, kMantissaBits = 3, kMost = 0x7E;
  const float magnitude = std::abs(x);
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : kLeastExponent, kLeastExponent);
  // 8 to 16 units, of which 16 are the next exponent's 8; fewer below the least exponent.
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent)));
  const int bits = ((exponent - kLeastExponent) << kMantissaBits) + units;
  return static_cast<std::byte>(std::min(bits, kMost) | (std::signbit(x) ? 0x80 : 0));
}

/// Writes the elements of a row in e4m3 and returns their scale.
float encode_e4m3(const float* row, Count cols, std::byte* elements) {
  constexpr float kRoundsToMost = 464;  // the half of a scale gives the same 448 for what is below
  constexpr std::uint32_t kMantissa = 0x7FFFFF;
  const float ratio = largest_magnitude(row, cols) / kRoundsToMost;
  if (ratio < std::numeric_limits<float>::min()) return 0;
  const auto scale = std::bit_cast<float>((std::bit_cast<std::uint32_t>(ratio) + kMantissa) & ~kMantissa);
  const float inverse = 1 / scale;
  for (Count c = 0; c < cols; ++c) elements[c] = e4m3_of(row[c] * inverse);
  return scale;
}

int low_nibble(std::byte byte) { return static_cast<std::int8_t>(std::to_integer<unsigned>(byte) << 4) >> 4; }
int high_nibble(std::byte byte) { return static_cast<std::int8_t>(std::to_integer<unsigned>(byte)) >> 4; }

float scale_of(const std::byte* code) {
  float scale = 0;
  std::memcpy(&scale, code, sizeof(scale));
  return scale;
}

struct Nearest {
  Count entry;
  double distance;
};

/// The entry of a codebook that is nearest to four columns, by squared distances in T; the first of several.
template <typename T>
Nearest nearest_by(const float* book, const float* columns) {
  T least = std::numeric_limits<T>::infinity();
  Count nearest = 0;
  for (Count e = 0; e < RowCode::kEntries; ++e) {
    T distance = 0;
    for (Count c = 0; c < RowCode::kGroupCols; ++c) {
      const T difference = static_cast<T>(columns[c]) - static_cast<T>(book[e * RowCode::kGroupCols + c]);
      distance += difference * difference;
    }
    if (distance < least) {
      least = distance;
      nearest = e;
    }
  }
  return {nearest, static_cast<double>(least)};
}

/// Squares of differences above 1e19 or below 1e-19 have no f32; those of f64 are always in range.
std::byte nearest_entry(const float* book, const float* columns) {
  Nearest found = nearest_by<float>(book, columns);
  const bool is_exact =
      std::equal(columns, columns + RowCode::kGroupCols, book + found.entry * RowCode::kGroupCols);
  const bool in_range = found.distance >= std::numeric_limits<float>::min() && std::isfinite(found.distance);
  if (!is_exact && !in_range) found = nearest_by<double>(book, columns);
  return static_cast<std::byte>(found.entry);
}

void encode_entries(const RowCode& code, const float* row, std::byte* out) {
  for (Count g = 0; g < code.num_groups(); ++g) {
    const Count first = g * RowCode::kGroupCols, width = std::min(RowCode::kGroupCols, code.cols - first);
    float columns[RowCode::kGroupCols] = {};
    std::copy_n(row + first, width, columns);
    out[g] = nearest_entry(code.codebooks->data() + g * RowCode::kEntries * RowCode::kGroupCols, columns);
  }
}

void decode_entries(const RowCode& code, const std::byte* in, float* row) {
  for (Count g = 0; g < code.num_groups(); ++g) {
    const Count first = g * RowCode::kGroupCols, width = std::min(RowCode::kGroupCols, code.cols - first);
    const Count entry = g * RowCode::kEntries + std::to_integer<Count>(in[g]);
    std::copy_n(code.codebooks->data() + entry * RowCode::kGroupCols, width, row + first);
  }
}

}  // namespace

Count RowCode::row_bytes() const {
  switch (kind) {
    case Kind::none:
      break;
    case Kind::i8:
    case Kind::e4m3:
      return kWord + words_for(cols);
    case Kind::i4:
      return kWord + words_for((cols + 1) / 2);
    case Kind::vq:
      return words_for(num_groups());
  }
  throw Error("rows without a code have no bytes of it");
}

void RowCode::encode(const float* row, std::byte* code) const {
  std::fill_n(code, row_bytes(), std::byte{0});
  if (kind == Kind::vq) return encode_entries(*this, row, code);
  std::byte* const elements = code + kWord;
  float scale = 0;
  if (kind == Kind::e4m3)
    scale = encode_e4m3(row, cols, elements);
  else if (kind == Kind::i8)
    scale = quantize(row, cols, 127, [&](Count c, int q) { elements[c] = static_cast<std::byte>(q); });
  else
    scale = quantize(row, cols, 7, [&](Count c, int q) {
      elements[c / 2] |= static_cast<std::byte>((q & 15) << (c % 2 * 4));
    });
  std::memcpy(code, &scale, sizeof(scale));
}

void RowCode::decode(const std::byte* code, float* row) const {
  if (kind == Kind::vq) return decode_entries(*this, code, row);
  const float scale = scale_of(code);
  const std::byte* const elements = code + kWord;
  if (kind == Kind::i8) {
    for (Count c = 0; c < cols; ++c)
      row[c] = static_cast<float>(static_cast<std::int8_t>(elements[c])) * scale;
    return;
  }
  if (kind == Kind::e4m3) {
    for (Count c = 0; c < cols; ++c) row[c] = ieee::e4m3(std::to_integer<std::uint32_t>(elements[c])) * scale;
    return;
  }
  for (Count c = 0; c < cols; ++c)
    row[c] =
        static_cast<float>(c % 2 == 0 ? low_nibble(elements[c / 2]) : high_nibble(elements[c / 2])) * scale;
}

bool RowCode::is_finite(const std::byte* code) const {
  if (!is_scaled()) return true;
  if (kind == Kind::e4m3) {
    constexpr std::byte kMagnitude{0x7F};
    const std::byte* const elements = code + kWord;
    return std::isfinite(scale_of(code) * 448) && std::none_of(elements, elements + cols, [](std::byte b) {
             return (b & kMagnitude) == kMagnitude;
           });
  }
  constexpr float kMostLevels = 128;
  return std::isfinite(scale_of(code) * kMostLevels);
}

std::string_view name_of(RowCode::Kind kind) {
  switch (kind) {
    case RowCode::Kind::none:
      break;
    case RowCode::Kind::i8:
      return "i8";
    case RowCode::Kind::i4:
      return "i4";
    case RowCode::Kind::vq:
      return "vq";
    case RowCode::Kind::e4m3:
      return "e4m3";
  }
  return {};
}

RowCode::Kind code_named(std::string_view name) {
  for (const auto kind : {RowCode::Kind::i8, RowCode::Kind::i4, RowCode::Kind::vq, RowCode::Kind::e4m3})
    if (name == name_of(kind)) return kind;
  return RowCode::Kind::none;
}

}  // namespace strata
