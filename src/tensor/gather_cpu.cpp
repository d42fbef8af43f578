// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "gather.hpp"
#include "strata/util/error.hpp"

namespace strata::tensor {
namespace {

// Types for elements for which C++20 has no type.
struct Half {
  std::uint16_t bits;
};
struct BFloat {
  std::uint16_t bits;
};
struct Scaled {
  std::int8_t value;
};

template <typename T>
inline float to_float(T value, float) {
  return static_cast<float>(value);
}

// f16_to_f32 without branches, so that the compiler vectorises the loop: moving the exponent by a product
// with 2^112 also normalises subnormals; infinities and NaN keep their payload and get the largest exponent.
inline float to_float(Half value, float) {
  const std::uint32_t magnitude = (value.bits & 0x7FFFu) << 13;
  const std::uint32_t special = (value.bits & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u;
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1.0p112f) |
                              special | sign);
}
inline float to_float(BFloat value, float) { return bf16_to_f32(value.bits); }
inline float to_float(Scaled value, float scale) { return static_cast<float>(value.value) * scale; }

constexpr std::size_t kCacheLine = 64;
constexpr Count kPrefetchRows = 8;  // covers the latency of one miss at about 10 ns per row
constexpr std::size_t kPieceBytes = 1 << 16;

inline void prefetch(const std::byte* row, std::size_t bytes) {
  for (std::size_t offset = 0; offset < std::min<std::size_t>(bytes, 8 * kCacheLine); offset += kCacheLine) {
    __builtin_prefetch(row + offset);
  }
}

// Rows without columns may have a null address, which std::copy_n and std::fill_n allow, but memcpy and
// memset do not.
struct CopyRow {
  std::size_t bytes;
  void operator()(const std::byte* row, std::byte* out) const { std::copy_n(row, bytes, out); }
};

template <typename T>
struct ConvertRow {
  Count cols;
  float scale;
  void operator()(const std::byte* row, std::byte* out) const {
    const T* typed = reinterpret_cast<const T*>(row);
    float* floats = reinterpret_cast<float*>(out);
    for (Count c = 0; c < cols; ++c) floats[c] = to_float(typed[c], scale);
  }
};

template <typename T>
struct RoundRow {
  Count cols;
  void operator()(const std::byte* row, std::byte* out) const {
    const T* typed = reinterpret_cast<const T*>(row);
    auto* rounded = reinterpret_cast<std::uint16_t*>(out);
    for (Count c = 0; c < cols; ++c) rounded[c] = f32_to_bf16(to_float(typed[c], 1));
  }
};

struct DecodeRow {
  const RowCode& code;
  void operator()(const std::byte* row, std::byte* out) const {
    code.decode(row, reinterpret_cast<float*>(out));
  }
};

/// The walk over the ids of an operation, shared by gather and scatter.
struct Walk {
  const HostRows& rows;
  const RowIds& ids;
  bool checked;
  ThreadPool& pool;

  std::size_t row_bytes() const { return rows.spec->row_bytes(); }
  std::byte* address(Count row) const {
    return rows.data + static_cast<std::size_t>(row) * rows.spec->row_pitch();
  }
  /// The row where it lies, or read into `scratch`.
  const std::byte* read(Count row, std::vector<std::byte>& scratch) const {
    const Location at = rows.location(row);
    if (at.stratum != Stratum::storage) return address(at.row);
    scratch.resize(row_bytes());
    rows.storage->read(at.row, 1, scratch.data());
    return scratch.data();
  }
  void write(Count row, const std::byte* bytes) const {
    const Location at = rows.location(row);
    if (at.stratum == Stratum::storage) return rows.storage->write(at.row, 1, bytes);
    std::copy_n(bytes, row_bytes(), address(at.row));
  }

  /// -1 for none.
  Count row_of(NodeId id) const {
    const Count row = id - ids.first;
    if (id == -1) return -1;
    if (row >= 0 && row < rows.spec->rows) return row;
    if (!checked) return -1;
    throw Error(fmt::format("id {} is not a row of \"{}\", whose ids are {} to {}", id, rows.spec->name,
                            ids.first, ids.first + rows.spec->rows - 1));
  }

  template <typename Id, typename Visit>
  void over(const Id* typed, std::size_t out_row_bytes, Visit&& visit) const {
    const Count size = ids.count != nullptr ? std::min(*ids.count, ids.size) : ids.size;
    const auto grain =
        static_cast<Count>(std::max<std::size_t>(1, kPieceBytes / std::max<std::size_t>(1, out_row_bytes)));
    pool.parallel_for(size, grain, [&](Count begin, Count end) {
      std::vector<std::byte> scratch;
      for (Count i = begin; i < end; ++i) {
        const Count ahead = i + kPrefetchRows < end ? NodeId{typed[i + kPrefetchRows]} - ids.first : -1;
        if (ahead >= 0 && ahead < rows.spec->rows && rows.storage == nullptr)
          prefetch(address(ahead), row_bytes());
        visit(i, row_of(typed[i]), scratch);
      }
    });
  }
  template <typename Visit>
  void run(std::size_t out_row_bytes, Visit&& visit) const {
    const IdSpan span{.data = ids.data, .size = ids.size, .wide = ids.wide};
    span.visit([&](const auto* typed) { over(typed, out_row_bytes, visit); });
  }
};

template <typename Row>
void gather_rows(const Walk& walk, const RowsOut& out, const Row& copy) {
  const std::size_t element = size_of(out.dtype);
  const auto cols = static_cast<std::size_t>(walk.rows.spec->gathered_cols(out.dtype));
  const std::size_t pitch = (out.pitch > 0 ? static_cast<std::size_t>(out.pitch) : cols) * element;
  auto* base = static_cast<std::byte*>(out.data);
  walk.run(cols * element, [&](Count i, Count row, std::vector<std::byte>& scratch) {
    std::byte* target = base + static_cast<std::size_t>(i) * pitch;
    if (row < 0) {
      std::fill_n(target, cols * element, std::byte{0});
    } else {
      copy(walk.read(row, scratch), target);
    }
  });
}

template <typename T>
void gather_floats(const Walk& walk, const RowsOut& out) {
  gather_rows(walk, out, ConvertRow<T>{walk.rows.spec->cols, walk.rows.spec->scale});
}

}  // namespace

void gather_on_cpu(const HostRows& rows, const RowIds& ids, const RowsOut& out, bool checked,
                   ThreadPool& pool) {
  const Walk walk{rows, ids, checked, pool};
  if (rows.spec->dtype == out.dtype) return gather_rows(walk, out, CopyRow{rows.spec->row_bytes()});
  if (rows.spec->code) return gather_rows(walk, out, DecodeRow{rows.spec->code});
  if (out.dtype == DType::bf16) {
    if (rows.spec->dtype == DType::f16) return gather_rows(walk, out, RoundRow<Half>{rows.spec->cols});
    return gather_rows(walk, out, RoundRow<float>{rows.spec->cols});
  }
  switch (rows.spec->dtype) {
    case DType::f32:
      return;  // copied or rounded
    case DType::f16:
      return gather_floats<Half>(walk, out);
    case DType::bf16:
      return gather_floats<BFloat>(walk, out);
    case DType::f64:
      return gather_floats<double>(walk, out);
    case DType::i8:
      return gather_floats<Scaled>(walk, out);
    case DType::u8:
      return gather_floats<std::uint8_t>(walk, out);
    case DType::i32:
      return gather_floats<std::int32_t>(walk, out);
    case DType::i64:
      return gather_floats<std::int64_t>(walk, out);
  }
}

void decode_on_cpu(const RowCode& code, const CodedRows& coded, float* out, ThreadPool& pool) {
  if (coded.count == 0 || code.cols == 0) return;
  const auto* rows = static_cast<const std::byte*>(coded.rows);
  const Count grain = std::max<Count>(1, static_cast<Count>(kPieceBytes / sizeof(float)) / code.cols);
  pool.parallel_for(coded.count, grain, [&](Count begin, Count end) {
    for (Count i = begin; i < end; ++i)
      if (coded.positions[i] >= 0)
        code.decode(rows + i * code.row_bytes(), out + coded.positions[i] * code.cols);
  });
}

void count_on_cpu(const HostRows& rows, const RowIds& ids, Count* counts) {
  const Count size = ids.count != nullptr ? std::min(*ids.count, ids.size) : ids.size;
  const IdSpan span{.data = ids.data, .size = size, .wide = ids.wide};
  span.visit([&](const auto* typed) {
    for (Count i = 0; i < size; ++i) {
      const Count row = NodeId{typed[i]} - ids.first;
      if (row >= 0 && row < rows.spec->rows) ++counts[static_cast<int>(rows.location(row).stratum)];
    }
  });
}

void scatter_on_cpu(const HostRows& rows, const RowIds& ids, const RowsIn& in, bool checked,
                    ThreadPool& pool) {
  const Walk walk{rows, ids, checked, pool};
  const std::size_t bytes = rows.spec->row_bytes();
  const std::size_t pitch =
      in.pitch > 0 ? static_cast<std::size_t>(in.pitch) * size_of(rows.spec->dtype) : bytes;
  const auto* base = static_cast<const std::byte*>(in.data);
  walk.run(bytes, [&](Count i, Count row, auto&) {
    if (row >= 0) walk.write(row, base + static_cast<std::size_t>(i) * pitch);
  });
}

}  // namespace strata::tensor
