// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "gather.hpp"

/// What the kernels of this module share: entries of a list and addresses of rows. Only for .cu files.
namespace strata::tensor {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;
// Chips for workstations hold 1,536 threads per multiprocessor, those for data centers 2,048.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ % 100 != 0 || __CUDA_ARCH__ >= 1200)
constexpr int kResidentBlocks = 1536 / kThreads;
#else
constexpr int kResidentBlocks = kBlocksPerMultiprocessor;
#endif

/// A piece of a list, so that entry numbers stay below 2^32 within a launch.
struct Piece {
  Count first = 0, rows = 0;
};

struct Entries {
  Count first;
  std::uint32_t rows;
};

__device__ inline Entries entries_of(const RowList& list, const Piece& piece) {
  const Count begin = list.begin != nullptr ? *list.begin : 0;
  const Count end = list.end != nullptr ? min(*list.end, list.bound) : list.bound;
  const Count first = max(begin, piece.first), last = min(end, piece.first + piece.rows);
  return {first, last > first ? static_cast<std::uint32_t>(last - first) : 0u};
}

__device__ inline NodeId id_of(const RowList& list, Count entry) {
  return list.wide ? static_cast<const std::int64_t*>(list.ids)[entry]
                   : NodeId{static_cast<const std::int32_t*>(list.ids)[entry]};
}

__device__ inline Count position_of(const RowList& list, Count entry) {
  return list.positions != nullptr ? Count{list.positions[entry]} : entry;
}

__device__ inline Location location_of(const RowTable& table, Count row) {
  const SegmentLayout* segments =
      table.num_segments > kInlineSegments ? table.device_segments : table.inline_segments.data();
  return locate<kGpuStrata>(segments, table.num_segments, row);
}

__device__ inline std::byte* stripe_address(const RowTable& table, Count row) {
  const StripeLocation stripe = locate_stripe(row, table.stripes);
  return table.stripe_data[static_cast<std::size_t>(stripe.gpu)] + stripe.row * table.row_pitch;
}

/// The address of a row; null for a host row of a table without a host stratum.
__device__ inline std::byte* address_of(const RowTable& table, Count row) {
  const Location at = location_of(table, row);
  if (at.stratum == Stratum::replicated) return table.replicated + at.row * table.row_pitch;
  if (at.stratum == Stratum::host)
    return table.host != nullptr ? table.host + at.row * table.row_pitch : nullptr;
  return stripe_address(table, at.row);
}

/// Whether the tensor has this row. For the id -1 `row` is negative, because `first` is not negative.
__device__ inline bool is_row(const RowTable& table, Count row) {
  return static_cast<std::uint64_t>(row) < static_cast<std::uint64_t>(table.rows);
}

/// Keeps the bad id of the lowest position. Bad ids are rare, so a lock is fast enough.
__device__ inline void note_if_bad(const RowTable& table, const RowList& list, Count entry) {
  const NodeId id = id_of(list, entry);
  if (id == -1 || is_row(table, id - list.first)) return;
  while (atomicCAS(&table.bad->locked, 0, 1) != 0) {
  }
  __threadfence();
  volatile BadId* record = table.bad;
  const Count position = position_of(list, entry);
  if (record->found == 0 || position < record->position) {
    record->found = 1;
    record->position = position;
    record->id = id;
  }
  __threadfence();
  atomicExch(&table.bad->locked, 0);
}

/// Calls launch(piece) for pieces of fewer than 2^30 items each.
template <typename Launch>
void for_each_piece(Count bound, Count items_per_row, Launch&& launch) {
  constexpr Count kMaxItems = Count{1} << 30;
  const Count step = kMaxItems / items_per_row > 0 ? kMaxItems / items_per_row : 1;
  for (Count first = 0; first < bound; first += step)
    launch(Piece{first, first + step < bound ? step : bound - first});
}

}  // namespace strata::tensor
