#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "gather.hpp"
#include "strata/util/error.hpp"

namespace strata::store {
namespace {

// Element types that have no type of their own in C++20.
struct Half {
  std::uint16_t bits;
};
struct BFloat {
  std::uint16_t bits;
};

template <typename T>
inline float to_float(T value) {
  return static_cast<float>(value);
}

// f16_to_f32 without branches, so that the compiler vectorises the loop: moving the exponent by a product
// with 2^112 also normalises subnormals; infinities and NaN keep their payload and get the largest exponent.
inline float to_float(Half value) {
  const std::uint32_t magnitude = (value.bits & 0x7FFFu) << 13;
  const std::uint32_t special = (value.bits & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u;
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1.0p112f) |
                              special | sign);
}
inline float to_float(BFloat value) { return bf16_to_f32(value.bits); }

constexpr std::size_t kCacheLine = 64;
constexpr Count kPrefetchRows = 8;  // ahead: covers the latency of one miss at about 10 ns a row
constexpr std::size_t kPieceBytes = 1 << 16;

inline void prefetch(const std::byte* row, std::size_t bytes) {
  for (std::size_t offset = 0; offset < std::min<std::size_t>(bytes, 8 * kCacheLine); offset += kCacheLine) {
    __builtin_prefetch(row + offset);
  }
}

void check_range(const HostRows& rows, NodeId row, NodeId first) {
  if (row >= 0 && row < rows.spec->rows) return;
  throw Error(fmt::format("id {} is not a row of \"{}\", whose ids are {} to {}", row + first,
                          rows.spec->name, first, first + rows.spec->rows - 1));
}

template <typename T>
void convert_row(const std::byte* row, Count cols, float* out) {
  const T* typed = reinterpret_cast<const T*>(row);
  for (Count c = 0; c < cols; ++c) out[c] = to_float(typed[c]);
}

template <typename T>
void gather_piece(const HostRows& rows, const RowIds& ids, Count begin, Count end, float* out) {
  const Count cols = rows.spec->cols;
  const std::size_t row_bytes = rows.spec->row_bytes();
  const auto address = [&](NodeId id) {
    return rows.data + static_cast<std::size_t>(id - ids.first) * row_bytes;
  };
  for (Count i = begin; i < end; ++i) {
    if (const Count ahead = i + kPrefetchRows; ahead < end && ids.data[ahead] != -1) {
      prefetch(address(ids.data[ahead]), row_bytes);
    }
    float* target = out + i * cols;
    if (ids.data[i] == -1) {
      std::fill_n(target, cols, 0.0f);
      continue;
    }
    check_range(rows, ids.data[i] - ids.first, ids.first);
    convert_row<T>(address(ids.data[i]), cols, target);
  }
}

template <typename T>
void gather_rows(const HostRows& rows, const RowIds& ids, float* out, ThreadPool& pool) {
  const Count out_row_bytes = std::max<Count>(1, rows.spec->cols * static_cast<Count>(sizeof(float)));
  const Count grain = std::max<Count>(1, static_cast<Count>(kPieceBytes) / out_row_bytes);
  pool.parallel_for(ids.size, grain,
                    [&](Count begin, Count end) { gather_piece<T>(rows, ids, begin, end, out); });
}

}  // namespace

void gather_on_cpu(const HostRows& rows, const RowIds& ids, float* out, ThreadPool& pool) {
  switch (rows.spec->dtype) {
    case DType::f32:
      return gather_rows<float>(rows, ids, out, pool);
    case DType::f16:
      return gather_rows<Half>(rows, ids, out, pool);
    case DType::bf16:
      return gather_rows<BFloat>(rows, ids, out, pool);
    case DType::f64:
      return gather_rows<double>(rows, ids, out, pool);
    case DType::i8:
      return gather_rows<std::int8_t>(rows, ids, out, pool);
    case DType::u8:
      return gather_rows<std::uint8_t>(rows, ids, out, pool);
    case DType::i32:
      return gather_rows<std::int32_t>(rows, ids, out, pool);
    case DType::i64:
      return gather_rows<std::int64_t>(rows, ids, out, pool);
  }
}

}  // namespace strata::store
