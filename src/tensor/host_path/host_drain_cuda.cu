// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "decode_rows_cuda.cuh"
#include "host_path/host_flags_cuda.cuh"
#include "host_path/host_kernels_cuda.hpp"
#include "row_access_cuda.cuh"
#include "row_codecs_cuda.cuh"
#include "strata/cuda/check.cuh"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {
namespace {

constexpr int kInFlight = 8;      // words per thread
constexpr int kDrainBlocks = 32;  // with 32 KiB in flight each; 0.2 MiB keep PCIe busy

struct DrainShape {
  std::uint32_t words_per_row = 0;
  Count out_pitch_bytes = 0;
  float scale = 1;
};

/// The rows of a chunk, dense in a slot.
struct Chunk {
  const std::byte* slot;
  Count first_entry;
  std::uint32_t rows;
};

// Words of a slot are read in order, whatever the length of a row, so each line crosses PCIe once and as a
// whole. Reads bypass the caches, because the slot may have held other rows when the kernel began.
template <typename Codec>
struct WordWriter {
  using Shape = DrainShape;
  static __device__ void write(const RowList& list, const Shape& shape, const Chunk& chunk, std::byte* out);
};
template <typename Codec>
__device__ void WordWriter<Codec>::write(const RowList& list, const Shape& shape, const Chunk& chunk,
                                         std::byte* out) {
  using Bits = typename Codec::Bits;
  const std::uint32_t words = chunk.rows * shape.words_per_row;
  const Bits* slot = reinterpret_cast<const Bits*>(chunk.slot);
  for (std::uint32_t i = threadIdx.x; i < words; i += kThreads * kInFlight) {
    Bits bits[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const std::uint32_t word = i + static_cast<std::uint32_t>(k) * kThreads;
      if (word < words) bits[k] = __ldcv(slot + word);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const std::uint32_t word = i + static_cast<std::uint32_t>(k) * kThreads;
      if (word >= words) break;
      const std::uint32_t row = word / shape.words_per_row, word_of_row = word - row * shape.words_per_row;
      const Count position = position_of(list, chunk.first_entry + row);
      Codec::store(bits[k], out + position * shape.out_pitch_bytes + Count{word_of_row} * Codec::kOut,
                   shape.scale);
    }
  }
}

/// Rows of a slot in a code.
struct SlotRows {
  const RowList& list;
  const Chunk& chunk;
  std::uint32_t words_per_row;
  Count num_rows;  ///< of the host stratum

  __device__ CodedRow operator()(std::uint32_t row, bool) const {
    const Count entry = chunk.first_entry + row, wanted = id_of(list, entry) - list.first;
    const bool exists = static_cast<std::uint64_t>(wanted) < static_cast<std::uint64_t>(num_rows);
    const auto* words = reinterpret_cast<const std::uint32_t*>(chunk.slot) + row * words_per_row;
    return {exists ? words : nullptr, position_of(list, entry)};
  }
  static __device__ std::uint32_t load(const std::uint32_t* word) { return __ldcv(word); }
};

struct CodesShape {
  DecodeShape decode;
  Count num_rows = 0;
};

template <RowCode::Kind kKind>
struct CodeWriter {
  using Shape = CodesShape;
  static __device__ void write(const RowList& list, const Shape& shape, const Chunk& chunk, std::byte* out) {
    decode_rows<kKind>(SlotRows{list, chunk, shape.decode.words_per_row, shape.num_rows}, chunk.rows,
                       threadIdx.x / 32, kThreads / 32, shape.decode, reinterpret_cast<float*>(out));
  }
};

// A block takes the next chunk, waits until the threads have filled its slot, and returns the slot. Running
// blocks take chunks in order, so the first unfinished chunk always has a block. The threads fill chunks in
// order, so they always find a slot. No number of blocks or threads can therefore deadlock.
template <typename Writer>
__global__ void __launch_bounds__(kThreads)
    drain_chunks(const __grid_constant__ HostJob job, const __grid_constant__ RowList list,
                 const __grid_constant__ typename Writer::Shape shape, std::byte* out, Split* split) {
  __shared__ Count taken;
  const Count middle = split->middle, rows = split->end - middle, num_chunks = job.num_chunks(rows);
  for (;;) {
    if (threadIdx.x == 0) {
      taken = static_cast<Count>(atomicAdd(&split->next_chunk, 1ull));
      if (taken < num_chunks) wait_for_flag(job.filled + taken, job.ticket);
    }
    __syncthreads();
    const Count chunk = taken;
    if (chunk >= num_chunks) return;
    const Count first = chunk * job.chunk_rows;
    Writer::write(list, shape,
                  {.slot = job.slot_of(chunk),
                   .first_entry = middle + first,
                   .rows = static_cast<std::uint32_t>(min(job.chunk_rows, rows - first))},
                  out);
    __syncthreads();  // every word was stored, so the slot is free; and `taken` may change
    if (threadIdx.x == 0) raise_flag(job.drained + chunk, job.ticket);
  }
}

struct Launch {
  const HostJob& job;
  const RowList& list;
  const RowFormat& format;
  std::byte* out;
  Split* split;
  const cuda::Stream& stream;

  Count out_pitch_bytes() const { return format.out_pitch * static_cast<Count>(size_of(format.out)); }
};

template <typename Writer>
void launch_writer(const Launch& l, const typename Writer::Shape& shape) {
  const Count blocks = std::clamp<Count>(l.job.num_chunks(l.list.bound), 1, kDrainBlocks);
  drain_chunks<Writer>
      <<<static_cast<unsigned>(blocks), kThreads, 0, l.stream.get()>>>(l.job, l.list, shape, l.out, l.split);
  cuda::check_launch("drain_chunks");
}

void launch_codes(const Launch& l, Count num_rows) {
  const CodesShape shape{
      DecodeShape::of(static_cast<Count>(l.job.row_bytes), l.format, reinterpret_cast<const float*>(l.out)),
      num_rows};
  with_code(l.format.code, [&]<RowCode::Kind kKind>() { launch_writer<CodeWriter<kKind>>(l, shape); });
}

template <typename Codec>
void launch(const Launch& l) {
  const DrainShape shape{.words_per_row = static_cast<std::uint32_t>(l.job.row_bytes / Codec::kIn),
                         .out_pitch_bytes = l.out_pitch_bytes(),
                         .scale = l.format.scale};
  launch_writer<WordWriter<Codec>>(l, shape);
}

/// Whether rows are whole words and words can be stored wherever rows begin. Slots are aligned to more than a
/// word.
template <typename Codec>
bool fits(const Launch& l) {
  constexpr std::size_t kStore = std::min(16, Codec::kOut);
  return l.job.row_bytes % Codec::kIn == 0 && reinterpret_cast<std::uintptr_t>(l.out) % kStore == 0 &&
         static_cast<std::size_t>(l.out_pitch_bytes()) % kStore == 0;
}

template <typename Element, int kWidth>
void launch_to_float(const Launch& l) {
  launch_first_that_fits<ToFloat<Element, kWidth>, ToFloat<Element, 1>>(l);
}

void launch_as_floats(const Launch& l) {
  switch (l.format.stored) {
    case DType::f32:
      return;  // not converted
    case DType::f16:
      return launch_to_float<__half, 8>(l);
    case DType::bf16:
      return launch_to_float<__nv_bfloat16, 8>(l);
    case DType::f64:
      return launch_to_float<double, 2>(l);
    case DType::i8:
      return launch_to_float<std::int8_t, 8>(l);
    case DType::u8:
      return launch_to_float<std::uint8_t, 8>(l);
    case DType::i32:
      return launch_to_float<std::int32_t, 4>(l);
    case DType::i64:
      return launch_to_float<std::int64_t, 2>(l);
  }
}

template <typename Element>
void launch_as_bf16(const Launch& l) {
  launch_first_that_fits<ToBFloat<Element, 4>, ToBFloat<Element, 2>, ToBFloat<Element, 1>>(l);
}

}  // namespace

void drain_ring(const HostJob& job, const RowGather& gather, Count num_rows, Split* split,
                const cuda::Stream& stream) {
  const RowFormat& format = gather.format;
  const Launch l{job, gather.list, format, static_cast<std::byte*>(gather.out), split, stream};
  if (format.code != RowCode::Kind::none) return launch_codes(l, num_rows);
  if (format.stored == format.out) return launch_first_that_fits<Raw<16>, Raw<8>, Raw<4>, Raw<2>, Raw<1>>(l);
  if (format.out == DType::bf16)
    return format.stored == DType::f16 ? launch_as_bf16<__half>(l) : launch_as_bf16<float>(l);
  launch_as_floats(l);
}

}  // namespace strata::tensor
