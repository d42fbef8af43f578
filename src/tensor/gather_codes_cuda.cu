// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "decode_rows_cuda.cuh"
#include "gather.hpp"
#include "row_access_cuda.cuh"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::tensor {
namespace {

constexpr int kWarps = kThreads / 32;  // of a block

/// Rows of any stratum, as a list names them.
struct ListedRows {
  const RowTable& table;
  const RowList& list;
  const Entries& entries;
  std::uint32_t start;

  __device__ CodedRow operator()(std::uint32_t row, bool notes) const {
    const std::uint32_t turned = row + start;
    const Count entry = entries.first + (turned < entries.rows ? turned : turned - entries.rows);
    const Count wanted = id_of(list, entry) - list.first;
    if (notes && table.bad != nullptr) note_if_bad(table, list, entry);
    if (!is_row(table, wanted)) return {nullptr, position_of(list, entry)};
    const std::byte* address = address_of(table, wanted);
    if (address == nullptr) return {};
    return {reinterpret_cast<const std::uint32_t*>(address), position_of(list, entry)};
  }
  static __device__ std::uint32_t load(const std::uint32_t* word) { return __ldcs(word); }
};

/// Rows that lie one after the other.
struct ArrivedRows {
  CodedRows coded;
  Count first;
  std::uint32_t words_per_row;

  __device__ CodedRow operator()(std::uint32_t row, bool) const {
    const Count i = first + row;
    return {static_cast<const std::uint32_t*>(coded.rows) + i * words_per_row, coded.positions[i]};
  }
  static __device__ std::uint32_t load(const std::uint32_t* word) { return __ldcs(word); }
};

__device__ std::uint32_t warp_of_grid() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }
__device__ std::uint32_t warps_of_grid() { return gridDim.x * kWarps; }

// A team of lanes per row. Reads the bytes of its code and writes four per column: 1 M rows of 128 columns in
// i8 move 132 + 512 MB, 0.2 ms at 3.2 TB/s; from the host 132 MB, 2.6 ms at 50 GB/s instead of 10 ms as f32.
template <RowCode::Kind kKind>
__global__ void __launch_bounds__(kThreads)
    gather_codes(const __grid_constant__ RowTable table, const __grid_constant__ RowList list, Piece piece,
                 const __grid_constant__ DecodeShape shape, Count start, float* out) {
  const Entries entries = entries_of(list, piece);
  const auto first = static_cast<std::uint32_t>((entries.rows * start) >> 20);
  decode_rows<kKind>(ListedRows{table, list, entries, first}, entries.rows, warp_of_grid(), warps_of_grid(),
                     shape, out);
}

// The same for rows that came from other machines, in the order in which they lie.
template <RowCode::Kind kKind>
__global__ void __launch_bounds__(kThreads)
    decode_arrived(CodedRows coded, Piece piece, const __grid_constant__ DecodeShape shape, float* out) {
  decode_rows<kKind>(ArrivedRows{coded, piece.first, shape.words_per_row},
                     static_cast<std::uint32_t>(piece.rows), warp_of_grid(), warps_of_grid(), shape, out);
}

unsigned blocks_for(Count rows, const DecodeShape& shape, int multiprocessors) {
  constexpr Count kRowsPerBlock = Count{kThreads} * kCodesInFlight;
  const Count threads = rows << shape.team_shift, limit = Count{multiprocessors} * kBlocksPerMultiprocessor;
  const Count all = std::max<Count>(1, (threads + kRowsPerBlock - 1) / kRowsPerBlock);
  return static_cast<unsigned>(limit > 0 ? std::min(all, limit) : all);
}

}  // namespace

void gather_codes_on_gpu(const RowTable& table, const RowGather& gather, const LaunchShape& launch,
                         const cuda::Stream& stream) {
  auto* const out = static_cast<float*>(gather.out);
  const DecodeShape shape = DecodeShape::of(table.row_bytes, gather.format, out);
  for_each_piece(gather.list.bound, Count{1} << shape.team_shift, [&](Piece piece) {
    with_code(gather.format.code, [&]<RowCode::Kind kKind>() {
      gather_codes<kKind>
          <<<blocks_for(piece.rows, shape, launch.multiprocessors), kThreads, 0, stream.get()>>>(
              table, gather.list, piece, shape, launch.start, out);
    });
    cuda::check_launch("gather_codes");
  });
}

void decode_on_gpu(const CodedRows& coded, Count row_bytes, const RowFormat& format, float* out,
                   const cuda::Stream& stream) {
  if (coded.count == 0 || format.cols == 0) return;
  const cuda::DeviceGuard guard(stream.device());
  const DecodeShape shape = DecodeShape::of(row_bytes, format, out);
  for_each_piece(coded.count, Count{1} << shape.team_shift, [&](Piece piece) {
    with_code(format.code, [&]<RowCode::Kind kKind>() {
      decode_arrived<kKind>
          <<<blocks_for(piece.rows, shape, 0), kThreads, 0, stream.get()>>>(coded, piece, shape, out);
    });
    cuda::check_launch("decode_arrived");
  });
}

}  // namespace strata::tensor
