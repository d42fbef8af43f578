// SPDX-License-Identifier: Apache-2.0
#include "host_path/host_rows_cpu.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace strata::tensor {
namespace {

constexpr std::size_t kLine = 64;  // bytes of a cache line
// prefetched lines; requests beyond the core's fill buffers wait in order
constexpr std::size_t kLinesAhead = 64;

/// How many rows to prefetch: 16 of up to 256 bytes, 8 of 512 bytes, 4 of 1 KiB and more.
std::size_t rows_ahead(std::size_t row_bytes) {
  constexpr std::size_t kLeast = 4, kMost = 16;
  return std::clamp(kLinesAhead / ((row_bytes + kLine - 1) / kLine), kLeast, kMost);
}

void prefetch_row(const std::byte* row, std::size_t row_bytes) {
  for (std::size_t at = 0; at < row_bytes; at += kLine) __builtin_prefetch(row + at, 0, 0);
  const std::byte* last = row + row_bytes - 1;  // in a line of its own if the row begins inside one
  const auto line = [](const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at) / kLine; };
  if (line(last) - line(row) >= (row_bytes + kLine - 1) / kLine) __builtin_prefetch(last, 0, 0);
}

struct PlainCopy {
  static void copy(std::byte* out, const std::byte* row, std::size_t bytes) { std::memcpy(out, row, bytes); }
  static void zero(std::byte* out, std::size_t bytes) { std::memset(out, 0, bytes); }
  static void finish() {}
};

#if defined(__x86_64__)

struct Stream16 {
  static constexpr std::size_t kBytes = 16;
  static void copy(std::byte* out, const std::byte* row, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kBytes) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + at),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + at)));
    }
  }
  static void zero(std::byte* out, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kBytes)
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + at), _mm_setzero_si128());
  }
  static void finish() { _mm_sfence(); }
};

struct Stream32 {
  static constexpr std::size_t kBytes = 32;
  __attribute__((target("avx2"))) static inline void copy(std::byte* out, const std::byte* row,
                                                          std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kBytes) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out + at),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + at)));
    }
  }
  static void zero(std::byte* out, std::size_t bytes) { Stream16::zero(out, bytes); }
  static void finish() { _mm_sfence(); }
};

/// Whether every row of `out` is aligned to the stores' size and consists of whole stores.
template <typename Stream>
bool fits(const RowSource& source, const std::byte* out) {
  return source.row_bytes % Stream::kBytes == 0 &&
         reinterpret_cast<std::uintptr_t>(out) % Stream::kBytes == 0;
}

#endif

template <typename Copy, typename Number>
[[gnu::always_inline]] inline void copy_with(const RowSource& source, std::span<const Number> numbers,
                                             std::byte* out) {
  const std::size_t bytes = source.row_bytes, count = numbers.size();
  const auto address = [&](std::size_t i) {
    return source.data + static_cast<std::size_t>(numbers[i]) * source.row_pitch;
  };
  const auto look_at = [&](std::size_t i) {
    if (i < count && numbers[i] != kNoRow<Number>) prefetch_row(address(i), bytes);
  };
  const std::size_t ahead = rows_ahead(bytes);
  for (std::size_t i = 0; i < ahead; ++i) look_at(i);
  for (std::size_t i = 0; i < count; ++i, out += bytes) {
    look_at(i + ahead);
    if (numbers[i] == kNoRow<Number>) {
      Copy::zero(out, bytes);
    } else {
      Copy::copy(out, address(i), bytes);
    }
  }
  Copy::finish();
}

#if defined(__x86_64__)

// The whole loop is compiled for the instruction set, so that there is no call per row.
template <typename Number>
__attribute__((target("avx2"))) void copy_with_avx2(const RowSource& source, std::span<const Number> numbers,
                                                    std::byte* out) {
  copy_with<Stream32>(source, numbers, out);
}

#endif

template <typename Number>
void copy_widest(const RowSource& source, std::span<const Number> numbers, std::byte* out, RowStores stores) {
  if (source.row_bytes == 0) return;
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (stores == RowStores::streaming) {
    if (has_avx2 && fits<Stream32>(source, out)) return copy_with_avx2(source, numbers, out);
    if (fits<Stream16>(source, out)) return copy_with<Stream16>(source, numbers, out);
  }
#endif
  copy_with<PlainCopy>(source, numbers, out);
}

}  // namespace

void copy_rows(const RowSource& source, std::span<const std::uint32_t> numbers, std::byte* out,
               RowStores stores) {
  copy_widest(source, numbers, out, stores);
}
void copy_rows(const RowSource& source, std::span<const std::uint64_t> numbers, std::byte* out,
               RowStores stores) {
  copy_widest(source, numbers, out, stores);
}

}  // namespace strata::tensor
