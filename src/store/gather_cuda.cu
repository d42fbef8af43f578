#include <algorithm>
#include <bit>

#include "gather.hpp"
#include "gather_bulk_cuda.hpp"
#include "row_access_cuda.cuh"
#include "row_codecs_cuda.cuh"
#include "strata/cuda/check.cuh"

namespace strata::store {
namespace {

constexpr int kInFlight = 4;  // independent loads a thread; 8 gained nothing in measurements
constexpr int kWarp = 32;
constexpr int kLineBytes = 128;

/// A row is read by a team of 2^team_shift lanes, in as many chunks of one word a lane as it takes.
struct TeamShape {
  std::uint32_t words_a_row = 0;
  std::uint32_t chunks_a_row = 1;
  int team_shift = 0;
  bool aligned = false;
  Count start = 0;
  Count out_pitch_bytes = 0;
  float scale = 1;
};

// A team's lanes load neighbouring words, so that a line of a row is asked for once: over NVLink and PCIe a
// line that two instructions share crosses the wire twice. Each thread has kInFlight loads on their way
// before it stores the first; which rows they belong to is of no matter.
template <typename Codec>
__global__ void __launch_bounds__(kThreads)
    gather_teams(const __grid_constant__ RowTable table, const __grid_constant__ RowList list, Piece piece,
                 const __grid_constant__ TeamShape shape, std::byte* out) {
  using Bits = typename Codec::Bits;
  const Entries entries = entries_of(list, piece);
  const std::uint32_t items = entries.rows * shape.chunks_a_row;
  const auto start = static_cast<std::uint32_t>((entries.rows * shape.start) >> 20);
  const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  const std::uint32_t lane = thread & ((1u << shape.team_shift) - 1);
  const std::uint32_t teams = (gridDim.x * blockDim.x) >> shape.team_shift;
  for (std::uint32_t i = thread >> shape.team_shift; i < items; i += teams * kInFlight) {
    Bits bits[kInFlight];
    std::byte* target[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      target[k] = nullptr;
      const std::uint32_t item = i + static_cast<std::uint32_t>(k) * teams;
      if (item >= items) continue;
      const std::uint32_t walk = shape.chunks_a_row == 1 ? item : item / shape.chunks_a_row;
      const std::uint32_t chunk = item - walk * shape.chunks_a_row;
      const std::uint32_t turned = walk + start;
      const Count entry = entries.first + (turned < entries.rows ? turned : turned - entries.rows);
      const Count row = row_of(table, list, entry, lane == 0 && chunk == 0);
      std::uint32_t word = (chunk << shape.team_shift) + lane;
      const std::byte* address = nullptr;
      if (row >= 0) {
        address = address_of(table, row);
        if (shape.aligned)
          word -= (static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(address)) & (kLineBytes - 1)) /
                  Codec::kIn;
      }
      if (word >= shape.words_a_row) continue;  // words before the row wrap around to large numbers
      bits[k] = row >= 0 ? __ldcs(reinterpret_cast<const Bits*>(address) + word) : Bits{};
      target[k] = out + position_of(list, entry) * shape.out_pitch_bytes + Count{word} * Codec::kOut;
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
      if (target[k] != nullptr) Codec::store(bits[k], target[k], shape.scale);
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
};

template <typename Codec>
void launch(const Launch& l) {
  const Count words = l.table.row_bytes / Codec::kIn;
  TeamShape shape{.words_a_row = static_cast<std::uint32_t>(words),
                  .team_shift = std::countr_zero(
                      std::bit_ceil(static_cast<std::uint32_t>(std::min<Count>(words, kWarp)))),
                  .start = l.shape.start,
                  .out_pitch_bytes = l.out_pitch_bytes(),
                  .scale = l.format.scale};
  const Count team = Count{1} << shape.team_shift;
  shape.aligned = l.shape.aligned && words > team && l.table.row_pitch % kLineBytes != 0;
  const Count before = shape.aligned ? kLineBytes / Codec::kIn - 1 : 0;
  shape.chunks_a_row = static_cast<std::uint32_t>((words + before + team - 1) / team);
  for_each_piece(l.list.bound, shape.chunks_a_row, [&](Piece piece) {
    const Count threads = piece.rows * shape.chunks_a_row * team;
    const Count blocks = std::clamp<Count>((threads + kThreads * kInFlight - 1) / (kThreads * kInFlight), 1,
                                           Count{l.shape.multiprocessors} * kBlocksPerMultiprocessor);
    gather_teams<Codec><<<static_cast<unsigned>(blocks), kThreads, 0, l.stream.get()>>>(l.table, l.list,
                                                                                        piece, shape, l.out);
    cuda::check_launch("gather_teams");
  });
}

/// Words of kIn bytes can be loaded and of kOut stored wherever rows begin.
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

template <typename Codec, typename... Narrower>
void launch_first_that_fits(const Launch& l) {
  if constexpr (sizeof...(Narrower) == 0) {
    launch<Codec>(l);
  } else {
    if (fits<Codec>(l)) return launch<Codec>(l);
    launch_first_that_fits<Narrower...>(l);
  }
}

void launch_as_floats(const Launch& l) {
  switch (l.format.stored) {
    case DType::f32:
      return;  // not converted
    case DType::f16:
      return launch_first_that_fits<ToFloat<__half, 8>, ToFloat<__half, 2>, ToFloat<__half, 1>>(l);
    case DType::bf16:
      return launch_first_that_fits<ToFloat<__nv_bfloat16, 8>, ToFloat<__nv_bfloat16, 2>,
                                    ToFloat<__nv_bfloat16, 1>>(l);
    case DType::f64:
      return launch_first_that_fits<ToFloat<double, 2>, ToFloat<double, 1>>(l);
    case DType::i8:
      return launch_first_that_fits<ToFloat<std::int8_t, 8>, ToFloat<std::int8_t, 1>>(l);
    case DType::u8:
      return launch_first_that_fits<ToFloat<std::uint8_t, 8>, ToFloat<std::uint8_t, 1>>(l);
    case DType::i32:
      return launch_first_that_fits<ToFloat<std::int32_t, 4>, ToFloat<std::int32_t, 1>>(l);
    case DType::i64:
      return launch_first_that_fits<ToFloat<std::int64_t, 2>, ToFloat<std::int64_t, 1>>(l);
  }
}

}  // namespace

void gather_on_gpu(const RowTable& table, const RowList& list, const RowFormat& format, void* out,
                   const LaunchShape& shape, const cuda::Stream& stream) {
  if (list.bound == 0 || format.cols == 0) return;
  const cuda::DeviceGuard guard(stream.device());
  if (shape.bulk && can_bulk(table, format, out)) return gather_bulk(table, list, format, out, shape, stream);
  const Launch l{table, list, format, static_cast<std::byte*>(out), shape, stream};
  if (format.stored == format.out) return launch_first_that_fits<Raw<16>, Raw<8>, Raw<4>, Raw<2>, Raw<1>>(l);
  if (format.out == DType::bf16) return launch_first_that_fits<ToBFloat<4>, ToBFloat<1>>(l);
  launch_as_floats(l);
}

}  // namespace strata::store
