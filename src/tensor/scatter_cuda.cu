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

struct ScatterShape {
  std::uint32_t words_per_row = 0;
  int team_shift = 0;
  Count in_pitch_bytes = 0;
};

template <typename Bits>
__device__ void write_word(const RowTable& table, const Replicas& replicas, const Location& at,
                           std::uint32_t word, const Bits& bits) {
  const auto write = [&](std::byte* row) { reinterpret_cast<Bits*>(row)[word] = bits; };
  if (at.stratum == Stratum::host) return write(table.host + at.row * table.row_pitch);
  if (at.stratum == Stratum::striped) return write(stripe_address(table, at.row));
  for (int g = 0; g < replicas.count; ++g)
    write(replicas.data[static_cast<std::size_t>(g)] + at.row * table.row_pitch);
}

template <int kBytes>
__global__ void __launch_bounds__(kThreads)
    scatter_teams(const __grid_constant__ RowTable table, const __grid_constant__ RowList list, Piece piece,
                  ScatterShape shape, const __grid_constant__ Replicas replicas, const std::byte* in) {
  using Bits = typename cuda::Word<kBytes>::Type;
  const Entries entries = entries_of(list, piece);
  const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  const std::uint32_t team = 1u << shape.team_shift, lane = thread & (team - 1);
  const std::uint32_t teams = (gridDim.x * blockDim.x) >> shape.team_shift;
  for (std::uint32_t i = thread >> shape.team_shift; i < entries.rows; i += teams) {
    const Count entry = entries.first + i;
    const Count row = id_of(list, entry) - list.first;
    if (lane == 0 && table.bad != nullptr) note_if_bad(table, list, entry);
    if (!is_row(table, row)) continue;
    const Location at = location_of(table, row);
    const auto* source = reinterpret_cast<const Bits*>(in + position_of(list, entry) * shape.in_pitch_bytes);
    for (std::uint32_t word = lane; word < shape.words_per_row; word += team)
      write_word(table, replicas, at, word, __ldcs(source + word));
  }
}

struct Launch {
  const RowTable& table;
  const RowList& list;
  const std::byte* in;
  Count in_pitch_bytes;
  const Replicas& replicas;
  const LaunchShape& shape;
  const cuda::Stream& stream;
};

template <int kBytes>
void launch(const Launch& l) {
  const Count words = l.table.row_bytes / kBytes;
  const ScatterShape shape{
      .words_per_row = static_cast<std::uint32_t>(words),
      .team_shift = std::countr_zero(std::bit_ceil(static_cast<std::uint32_t>(std::min<Count>(words, 32)))),
      .in_pitch_bytes = l.in_pitch_bytes};
  for_each_piece(l.list.bound, 1, [&](Piece piece) {
    const Count threads = piece.rows << shape.team_shift;
    const Count blocks = std::clamp<Count>((threads + kThreads - 1) / kThreads, 1,
                                           Count{l.shape.multiprocessors} * kBlocksPerMultiprocessor);
    scatter_teams<kBytes><<<static_cast<unsigned>(blocks), kThreads, 0, l.stream.get()>>>(
        l.table, l.list, piece, shape, l.replicas, l.in);
    cuda::check_launch("scatter_teams");
  });
}

template <int kBytes>
bool fits(const Launch& l) {
  const std::uint64_t all =
      static_cast<std::uint64_t>(l.table.row_bytes | l.table.row_pitch | l.in_pitch_bytes) |
      reinterpret_cast<std::uintptr_t>(l.table.host) | reinterpret_cast<std::uintptr_t>(l.in);
  return all % kBytes == 0;
}

}  // namespace

void scatter_on_gpu(const RowTable& table, const RowList& list, const RowFormat& format, const void* in,
                    const Replicas& replicas, const LaunchShape& shape, const cuda::Stream& stream) {
  if (list.bound == 0 || format.cols == 0) return;
  const cuda::DeviceGuard guard(stream.device());
  const Launch l{table,
                 list,
                 static_cast<const std::byte*>(in),
                 format.out_pitch * static_cast<Count>(size_of(format.stored)),
                 replicas,
                 shape,
                 stream};
  if (fits<16>(l)) return launch<16>(l);
  if (fits<8>(l)) return launch<8>(l);
  if (fits<4>(l)) return launch<4>(l);
  if (fits<2>(l)) return launch<2>(l);
  launch<1>(l);
}

}  // namespace strata::tensor
