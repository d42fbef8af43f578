// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/util/types.hpp"

/// What the operations of a ChunkTensor read and write; views, all of them.
namespace strata::tensor {

/// Ids of rows, on the device of the stream that the operation gets.
///
/// The id `first + r` names row r; -1 names no row: a gather writes zeros for it, a scatter skips it. So does
/// an id out of range, which ChunkTensor::check_ids() turns into an error.
struct RowIds {
  const void* data = nullptr;  ///< [size] i64, or i32 where `wide` is false
  Count size = 0;              ///< at most so many ids
  NodeId first = 0;            ///< lets global ids address a machine's rows
  bool wide = true;
  /// Ascending, or a few ascending runs one after the other: saves the host stratum a sort; never changes the
  /// result.
  bool sorted = false;
  const Count* count =
      nullptr;  ///< on the device too: how many of the ids count; null: all. Rows beyond stay untouched
};

/// Where gathered rows go: row i begins at element i * pitch.
struct RowsOut {
  void* data = nullptr;  ///< on the device of the stream, aligned to its elements
  DType dtype = DType::f32;
  Count pitch = 0;  ///< in elements; 0: the tensor's columns
};

/// Where scattered rows come from, in the tensor's type.
struct RowsIn {
  const void* data = nullptr;  ///< on the device of the stream
  Count pitch = 0;             ///< in elements; 0: the tensor's columns
};

/// Types that a gather can write for rows of `stored`: the same, f32 for all, bf16 for f32.
constexpr bool can_gather(DType stored, DType out) {
  return stored == out || out == DType::f32 || (stored == DType::f32 && out == DType::bf16);
}

}  // namespace strata::tensor
