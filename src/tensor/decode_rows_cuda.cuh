// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>

#include "gather.hpp"

/// How teams of lanes decode rows of a RowCode. Only for .cu files.
namespace strata::tensor {

constexpr int kCodesInFlight = 4;  // rows whose words a lane loads before it decodes the first

/// A team of 2^team_shift lanes of a warp decodes a row.
struct DecodeShape {
  std::uint32_t words_per_row = 0;
  std::uint32_t cols = 0;
  std::uint32_t chunks = 1;  ///< of a word per lane
  int team_shift = 0;
  Count out_pitch = 0;       ///< floats
  bool wide_stores = false;  ///< four floats fit wherever rows begin
  const float* codebooks = nullptr;

  static DecodeShape of(Count row_bytes, const RowFormat& format, const float* out) {
    const auto words = static_cast<std::uint32_t>(row_bytes / 4);
    constexpr std::uint32_t kWarp = 32;
    const std::uint32_t team = std::bit_ceil(std::clamp<std::uint32_t>(words, 1, kWarp));
    return {.words_per_row = words,
            .cols = static_cast<std::uint32_t>(format.cols),
            .chunks = (words + team - 1) / team,
            .team_shift = std::countr_zero(team),
            .out_pitch = format.out_pitch,
            .wide_stores = format.out_pitch % 4 == 0 && reinterpret_cast<std::uintptr_t>(out) % 16 == 0,
            .codebooks = format.codebooks};
  }
};

/// Where a row comes from and goes to.
struct CodedRow {
  const std::uint32_t* words = nullptr;  ///< null: zeros
  Count position = -1;                   ///< -1: nowhere
};

/// Four columns at a time, a "quad": as many as a word holds. kHeaderWords precede them.
template <RowCode::Kind kKind>
struct Quads;
template <>
struct Quads<RowCode::Kind::i8> {
  static constexpr std::uint32_t kPerWord = 1;
  static constexpr int kHeaderWords = 1;
  static __device__ float4 decode(std::uint32_t word, std::uint32_t, float scale, const DecodeShape&,
                                  std::uint32_t) {
    const auto element = [&](int e) {
      return static_cast<float>(static_cast<std::int8_t>(word >> (8 * e))) * scale;
    };
    return {element(0), element(1), element(2), element(3)};
  }
};
template <>
struct Quads<RowCode::Kind::e4m3> {
  static constexpr std::uint32_t kPerWord = 1;
  static constexpr int kHeaderWords = 1;
  static __device__ float4 decode(std::uint32_t word, std::uint32_t, float scale, const DecodeShape&,
                                  std::uint32_t) {
    const auto element = [&](int e) { return ieee::e4m3(word >> (8 * e)) * scale; };
    return {element(0), element(1), element(2), element(3)};
  }
};
template <>
struct Quads<RowCode::Kind::i4> {
  static constexpr std::uint32_t kPerWord = 2;
  static constexpr int kHeaderWords = 1;
  static __device__ float4 decode(std::uint32_t word, std::uint32_t part, float scale, const DecodeShape&,
                                  std::uint32_t) {
    const auto element = [&](std::uint32_t e) {
      return static_cast<float>(static_cast<std::int32_t>(word << (28 - 16 * part - 4 * e)) >> 28) * scale;
    };
    return {element(0), element(1), element(2), element(3)};
  }
};
template <>
struct Quads<RowCode::Kind::vq> {
  static constexpr std::uint32_t kPerWord = 4;
  static constexpr int kHeaderWords = 0;
  static __device__ float4 decode(std::uint32_t word, std::uint32_t part, float, const DecodeShape& shape,
                                  std::uint32_t quad) {
    const std::uint32_t entry =
        quad * static_cast<std::uint32_t>(RowCode::kEntries) + ((word >> (8 * part)) & 255u);
    return __ldg(reinterpret_cast<const float4*>(shape.codebooks) + entry);
  }
};

__device__ inline void store_quad(const float4& values, float* row, std::uint32_t col,
                                  const DecodeShape& shape) {
  if (shape.wide_stores && col + 4 <= shape.cols) {
    *reinterpret_cast<float4*>(row + col) = values;
    return;
  }
  const float all[] = {values.x, values.y, values.z, values.w};
#pragma unroll
  for (std::uint32_t c = 0; c < 4; ++c)
    if (col + c < shape.cols) row[col + c] = all[c];
}

/// Decodes rows [0, count), which the calling warp shares with `num_warps` others: rows(i) says where row i
/// is, and rows.load(address) reads a word. All lanes of a warp must call it.
///
/// The lanes of a team load neighboring words, so each line of a row is requested once; then lanes hand words
/// to each other, so that neighboring lanes store neighboring quads.
template <RowCode::Kind kKind, typename Rows>
__device__ void decode_rows(const Rows& rows, std::uint32_t count, std::uint32_t warp,
                            std::uint32_t num_warps, const DecodeShape& shape, float* out) {
  using Codec = Quads<kKind>;
  constexpr int kInFlight = kCodesInFlight;
  constexpr std::uint32_t kWarp = 32;
  const std::uint32_t team = 1u << shape.team_shift, teams = kWarp >> shape.team_shift;
  const std::uint32_t lane = threadIdx.x & (team - 1), mine = (threadIdx.x & (kWarp - 1)) >> shape.team_shift;
  for (std::uint32_t first = warp * teams; first < count; first += num_warps * teams * kInFlight) {
    CodedRow from[kInFlight];
    float scales[kInFlight];
#pragma unroll
    for (std::uint32_t k = 0; k < kInFlight; ++k) {
      const std::uint32_t row = first + k * num_warps * teams + mine;
      from[k] = row < count ? rows(row, lane == 0) : CodedRow{};
    }
    for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk) {
      std::uint32_t words[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        const std::uint32_t word = (chunk << shape.team_shift) + lane;
        const bool reads = from[k].words != nullptr && word < shape.words_per_row;
        words[k] = reads ? rows.load(from[k].words + word) : 0u;
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (chunk == 0)
          scales[k] = __uint_as_float(__shfl_sync(0xFFFFFFFFu, words[k], 0, static_cast<int>(team)));
#pragma unroll
        for (std::uint32_t step = 0; step < Codec::kPerWord; ++step) {
          const std::uint32_t quad_of_chunk = (step << shape.team_shift) + lane;
          const std::uint32_t holder = quad_of_chunk / Codec::kPerWord,
                              part = quad_of_chunk % Codec::kPerWord;
          const std::uint32_t bits =
              __shfl_sync(0xFFFFFFFFu, words[k], static_cast<int>(holder), static_cast<int>(team));
          const int word = static_cast<int>((chunk << shape.team_shift) + holder) - Codec::kHeaderWords;
          const auto quad = static_cast<std::uint32_t>(word) * Codec::kPerWord + part;
          if (word < 0 || quad * 4 >= shape.cols || from[k].position < 0) continue;
          const float4 values = from[k].words != nullptr ? Codec::decode(bits, part, scales[k], shape, quad)
                                                         : float4{0, 0, 0, 0};
          store_quad(values, out + from[k].position * shape.out_pitch, quad * 4, shape);
        }
      }
    }
  }
}

/// Calls launch.operator()<kind>() for the kind.
template <typename Launch>
void with_code(RowCode::Kind kind, Launch&& launch) {
  switch (kind) {
    case RowCode::Kind::none:
      return;
    case RowCode::Kind::i8:
      return launch.template operator()<RowCode::Kind::i8>();
    case RowCode::Kind::i4:
      return launch.template operator()<RowCode::Kind::i4>();
    case RowCode::Kind::e4m3:
      return launch.template operator()<RowCode::Kind::e4m3>();
    case RowCode::Kind::vq:
      return launch.template operator()<RowCode::Kind::vq>();
  }
}

}  // namespace strata::tensor
