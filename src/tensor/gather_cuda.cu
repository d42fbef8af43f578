// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "gather.hpp"
#include "row_access_cuda.cuh"
#include "row_codecs_cuda.cuh"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {
namespace {

constexpr int kInFlight = 4;  // independent loads per thread; 8 were not faster in measurements
constexpr int kLocalInFlight = 2;
constexpr int kWarp = 32;
constexpr int kLineBytes = 128;

/// A team of 2^team_shift lanes reads a row, in chunks of one word per lane.
struct TeamShape {
  std::uint32_t words_per_row = 0;
  std::uint32_t chunks_per_row = 1;
  int team_shift = 0;
  bool aligned = false;
  Count start = 0;
  Count out_pitch_bytes = 0;
  float scale = 1;
};

/// One word of a row, on its way from a table to the output.
struct Transfer {
  Count entry;
  Count row;
  std::uint32_t word;  ///< words beyond the row are not moved
};

// The lanes of a team load neighboring words, so that each line of a row is requested once; a line that two
// instructions share would cross NVLink or PCIe twice. Each thread loads kInFlight ids, then as many words,
// before it stores the first one, whatever rows they belong to.
template <typename Codec>
__global__ void __launch_bounds__(kThreads)
    gather_teams(const __grid_constant__ RowTable table, const __grid_constant__ RowList list, Piece piece,
                 const __grid_constant__ TeamShape shape, std::byte* out) {
  using Bits = typename Codec::Bits;
  constexpr std::uint32_t kNoWord = 0xFFFFFFFFu;
  const Entries entries = entries_of(list, piece);
  const std::uint32_t items = entries.rows * shape.chunks_per_row;
  const auto start = static_cast<std::uint32_t>((entries.rows * shape.start) >> 20);
  const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  const std::uint32_t lane = thread & ((1u << shape.team_shift) - 1);
  const std::uint32_t teams = (gridDim.x * blockDim.x) >> shape.team_shift;
  for (std::uint32_t i = thread >> shape.team_shift; i < items; i += teams * kInFlight) {
    Transfer transfers[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const std::uint32_t item = i + static_cast<std::uint32_t>(k) * teams;
      const std::uint32_t walk = shape.chunks_per_row == 1 ? item : item / shape.chunks_per_row;
      const std::uint32_t chunk = item - walk * shape.chunks_per_row, turned = walk + start;
      Transfer& t = transfers[k];
      t.entry = entries.first + (turned < entries.rows ? turned : turned - entries.rows);
      t.word = item < items ? (chunk << shape.team_shift) + lane : kNoWord;
      t.row = item < items ? id_of(list, t.entry) - list.first : -1;
    }
    Bits bits[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      Transfer& t = transfers[k];
      bits[k] = Bits{};
      if (!is_row(table, t.row)) continue;
      const std::byte* address = address_of(table, t.row);
      if (address == nullptr) {
        t.word = kNoWord;
        continue;
      }
      if (shape.aligned)  // indices of words before the row wrap around to large numbers
        t.word -= (static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(address)) & (kLineBytes - 1)) /
                  Codec::kIn;
      if (t.word < shape.words_per_row) bits[k] = __ldcs(reinterpret_cast<const Bits*>(address) + t.word);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const Transfer& t = transfers[k];
      if (t.word >= shape.words_per_row) continue;
      Codec::store(bits[k],
                   out + position_of(list, t.entry) * shape.out_pitch_bytes + Count{t.word} * Codec::kOut,
                   shape.scale);
      if (t.word == 0 && table.bad != nullptr) note_if_bad(table, list, t.entry);
    }
  }
}

/// Words of rows that all lie in this GPU's memory.
struct LocalShape {
  std::uint32_t words_per_row = 0;
  int words_shift = -1;  ///< log2 of a power of two; else -1
  Count out_pitch_bytes = 0;
  float scale = 1;

  __device__ std::uint32_t row_of(std::uint32_t item) const {
    return words_shift >= 0 ? item >> words_shift : item / words_per_row;
  }
};

// Consecutive threads take consecutive words of the output, whatever rows they belong to. The speed depends
// on how many loads are in flight and how close they lie. Few registers let an SM hold as many threads as it
// can, and the grid covers all words at once, which reads 3 to 6 % faster than resident threads that loop.
// Two words per thread are best; streaming loads, bulk copies through shared memory and longer loops are
// slower. kDense: output rows are contiguous, so that a word's address does not depend on its row.
template <typename Codec, bool kDense>
__global__ void __launch_bounds__(kThreads, kResidentBlocks)
    gather_local(const __grid_constant__ RowTable table, const __grid_constant__ RowList list, Piece piece,
                 const __grid_constant__ LocalShape shape, std::byte* out) {
  using Bits = typename Codec::Bits;
  const Entries entries = entries_of(list, piece);
  const std::uint32_t items = entries.rows * shape.words_per_row, stride = gridDim.x * blockDim.x;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < items; i += stride * kLocalInFlight) {
    Count rows[kLocalInFlight];
#pragma unroll
    for (int k = 0; k < kLocalInFlight; ++k) {
      const std::uint32_t item = i + static_cast<std::uint32_t>(k) * stride;
      rows[k] = item < items ? id_of(list, entries.first + shape.row_of(item)) - list.first : -1;
    }
    Bits bits[kLocalInFlight];
#pragma unroll
    for (int k = 0; k < kLocalInFlight; ++k) {
      const std::uint32_t item = i + static_cast<std::uint32_t>(k) * stride;
      const std::uint32_t word = item - shape.row_of(item) * shape.words_per_row;
      bits[k] = Bits{};
      if (is_row(table, rows[k]))
        bits[k] = __ldg(reinterpret_cast<const Bits*>(table.replicated + rows[k] * table.row_pitch) + word);
    }
#pragma unroll
    for (int k = 0; k < kLocalInFlight; ++k) {
      const std::uint32_t item = i + static_cast<std::uint32_t>(k) * stride;
      if (item >= items) break;
      if constexpr (kDense) {
        Codec::store(bits[k], out + (entries.first * shape.words_per_row + item) * Codec::kOut, shape.scale);
      } else {
        const std::uint32_t row = shape.row_of(item), word = item - row * shape.words_per_row;
        Codec::store(
            bits[k],
            out + position_of(list, entries.first + row) * shape.out_pitch_bytes + Count{word} * Codec::kOut,
            shape.scale);
      }
    }
    if (table.bad == nullptr) continue;
    for (int k = 0; k < kLocalInFlight; ++k) {
      const std::uint32_t item = i + static_cast<std::uint32_t>(k) * stride, row = shape.row_of(item);
      if (item < items && item == row * shape.words_per_row) note_if_bad(table, list, entries.first + row);
    }
  }
}

struct Launch {
  const RowTable& table;
  const RowList& list;
  const RowFormat& format;
  std::byte* out;
  const LaunchShape& shape;
  const cuda::Stream& stream;

  Count out_pitch_bytes() const { return format.out_pitch * static_cast<Count>(size_of(format.out)); }
  unsigned blocks(Count words, int words_per_thread) const {
    const Count words_per_block = Count{kThreads} * words_per_thread,
                all = (words + words_per_block - 1) / words_per_block;
    const Count limit = Count{shape.multiprocessors} * kBlocksPerMultiprocessor;
    return static_cast<unsigned>(std::max<Count>(1, limit > 0 ? std::min(all, limit) : all));
  }
};

template <typename Codec>
void launch_local(const Launch& l) {
  const auto words = static_cast<std::uint32_t>(l.table.row_bytes / Codec::kIn);
  const LocalShape shape{.words_per_row = words,
                         .words_shift = std::has_single_bit(words) ? std::countr_zero(words) : -1,
                         .out_pitch_bytes = l.out_pitch_bytes(),
                         .scale = l.format.scale};
  for_each_piece(l.list.bound, words, [&](Piece piece) {
    const unsigned blocks = l.blocks(piece.rows * words, kLocalInFlight);
    if (l.list.positions == nullptr && shape.out_pitch_bytes == Count{words} * Codec::kOut) {
      gather_local<Codec, true>
          <<<blocks, kThreads, 0, l.stream.get()>>>(l.table, l.list, piece, shape, l.out);
    } else {
      gather_local<Codec, false>
          <<<blocks, kThreads, 0, l.stream.get()>>>(l.table, l.list, piece, shape, l.out);
    }
    cuda::check_launch("gather_local");
  });
}

template <typename Codec>
void launch_teams(const Launch& l) {
  const Count words = l.table.row_bytes / Codec::kIn;
  TeamShape shape{.words_per_row = static_cast<std::uint32_t>(words),
                  .team_shift = std::countr_zero(
                      std::bit_ceil(static_cast<std::uint32_t>(std::min<Count>(words, kWarp)))),
                  .start = l.shape.start,
                  .out_pitch_bytes = l.out_pitch_bytes(),
                  .scale = l.format.scale};
  const Count team = Count{1} << shape.team_shift;
  shape.aligned = l.shape.aligned && words > team && l.table.row_pitch % kLineBytes != 0;
  const Count before = shape.aligned ? kLineBytes / Codec::kIn - 1 : 0;
  shape.chunks_per_row = static_cast<std::uint32_t>((words + before + team - 1) / team);
  for_each_piece(l.list.bound, shape.chunks_per_row * team, [&](Piece piece) {
    gather_teams<Codec>
        <<<l.blocks(piece.rows * shape.chunks_per_row * team, kInFlight), kThreads, 0, l.stream.get()>>>(
            l.table, l.list, piece, shape, l.out);
    cuda::check_launch("gather_teams");
  });
}

template <typename Codec>
void launch(const Launch& l) {
  if (l.shape.local) {
    launch_local<Codec>(l);
  } else {
    launch_teams<Codec>(l);
  }
}

/// Whether words of kIn bytes can be loaded, and words of kOut bytes stored, wherever rows begin.
template <typename Codec>
bool fits(const Launch& l) {
  const auto divides = [](std::uint64_t bytes, int word) {
    return bytes % static_cast<std::uint64_t>(word) == 0;
  };
  constexpr int kStore = std::min(16, Codec::kOut);
  return divides(static_cast<std::uint64_t>(l.table.row_bytes), Codec::kIn) &&
         divides(static_cast<std::uint64_t>(l.table.row_pitch), Codec::kIn) &&
         divides(reinterpret_cast<std::uintptr_t>(l.table.host), Codec::kIn) &&
         divides(reinterpret_cast<std::uintptr_t>(l.out), kStore) &&
         divides(static_cast<std::uint64_t>(l.out_pitch_bytes()), kStore);
}

void launch_as_floats(const Launch& l) {
  switch (l.format.stored) {
    case DType::f32:
      return;  // not converted
    case DType::f16:
      return launch_first_that_fits<ToFloat<__half, 4>, ToFloat<__half, 2>, ToFloat<__half, 1>>(l);
    case DType::bf16:
      return launch_first_that_fits<ToFloat<__nv_bfloat16, 4>, ToFloat<__nv_bfloat16, 2>,
                                    ToFloat<__nv_bfloat16, 1>>(l);
    case DType::f64:
      return launch_first_that_fits<ToFloat<double, 2>, ToFloat<double, 1>>(l);
    case DType::i8:
      return launch_first_that_fits<ToFloat<std::int8_t, 4>, ToFloat<std::int8_t, 1>>(l);
    case DType::u8:
      return launch_first_that_fits<ToFloat<std::uint8_t, 4>, ToFloat<std::uint8_t, 1>>(l);
    case DType::i32:
      return launch_first_that_fits<ToFloat<std::int32_t, 4>, ToFloat<std::int32_t, 1>>(l);
    case DType::i64:
      return launch_first_that_fits<ToFloat<std::int64_t, 2>, ToFloat<std::int64_t, 1>>(l);
  }
}

template <typename Element>
void launch_as_bf16(const Launch& l) {
  launch_first_that_fits<ToBFloat<Element, 4>, ToBFloat<Element, 2>, ToBFloat<Element, 1>>(l);
}

}  // namespace

void gather_on_gpu(const RowTable& table, const RowGather& gather, const LaunchShape& shape,
                   const cuda::Stream& stream) {
  const RowFormat& format = gather.format;
  if (gather.list.bound == 0 || format.cols == 0) return;
  const cuda::DeviceGuard guard(stream.device());
  if (format.code != RowCode::Kind::none) return gather_codes_on_gpu(table, gather, shape, stream);
  const Launch l{table, gather.list, format, static_cast<std::byte*>(gather.out), shape, stream};
  if (format.stored == format.out) return launch_first_that_fits<Raw<16>, Raw<8>, Raw<4>, Raw<2>, Raw<1>>(l);
  if (format.out == DType::bf16)
    return format.stored == DType::f16 ? launch_as_bf16<__half>(l) : launch_as_bf16<float>(l);
  launch_as_floats(l);
}

}  // namespace strata::tensor
