// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/dgs/id_maps.hpp"
#include "strata/util/random.hpp"

/// Open addressing, the same on CPU and GPU.
namespace strata::dgs {

inline constexpr Count kNowhere = -1;

STRATA_HOST_DEVICE inline Count first_slot(NodeId id, Count capacity) {
  return static_cast<Count>(mix64(static_cast<std::uint64_t>(id)) & static_cast<std::uint64_t>(capacity - 1));
}
STRATA_HOST_DEVICE inline Count next_slot(Count slot, Count capacity) { return (slot + 1) & (capacity - 1); }

/// The value of a key, or kNowhere. A map has free slots; arrays that are none may have no key -1 at all.
template <typename Id>
STRATA_HOST_DEVICE Count find_value(const Id* keys, const Id* values, Count capacity, Id id) {
  Count slot = first_slot(id, capacity);
  for (Count probed = 0; probed < capacity; ++probed, slot = next_slot(slot, capacity)) {
    if (keys[slot] == id) return static_cast<Count>(values[slot]);
    if (keys[slot] == Id{-1}) break;
  }
  return kNowhere;
}

/// The address of a row; null if it is none.
STRATA_HOST_DEVICE inline const char* row_at(const RowSource& source, Count row) {
  const sampling::PiecedArray& rows = source.rows;
  if (row < 0 || row >= rows.size) return nullptr;
  if (row >= rows.in_pieces)
    return static_cast<const char*>(rows.rest) + (row - rows.in_pieces) * source.row_bytes;
  const Count piece = row / rows.piece_size;
  return static_cast<const char*>(rows.pieces.data()[piece]) +
         (row - piece * rows.piece_size) * source.row_bytes;
}

std::unique_ptr<Relabeling> make_relabeling_on_gpu(const IdSpan& ids, const Workspace& workspace);
void fill_on_gpu(const HashMapView& map, const IdSpan& keys, const IdSpan& values,
                 const cuda::Stream& stream);
void fetch_on_gpu(const HashMapView& map, const IdSpan& ids, const RowSource& hot, const RowSource& cold,
                  void* out, const cuda::Stream& stream);

}  // namespace strata::dgs
