// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/util/types.hpp"

/// What the operations of a ChunkTensor read and write. All of these types are views.
namespace strata::tensor {

/// Ids of rows, on the device of the operation's stream.
///
/// The id `first + r` names row r. -1 names no row: a gather writes zeros for it, and a scatter skips it. An
/// id out of range is treated like -1, unless ChunkTensor::check_ids() makes it an error.
struct RowIds {
  const void* data = nullptr;  ///< [size] i64, or i32 where `wide` is false
  Count size = 0;              ///< upper bound of the number of ids
  NodeId first = 0;            ///< lets global ids address a machine's rows
  bool wide = true;
  /// Whether the ids ascend, or are a few ascending runs one after the other. This spares the host stratum a
  /// sort and never changes the result.
  bool sorted = false;
  /// How many of the ids count, on the device, too; null: all. The output rows beyond them stay untouched.
  const Count* count = nullptr;
};

/// Where gathered rows go: row i begins at element i * pitch.
struct RowsOut {
  void* data = nullptr;  ///< on the device of the stream, aligned to its elements
  DType dtype = DType::f32;
  Count pitch = 0;  ///< in elements; 0: those of a row
};

/// Where scattered rows come from, in the tensor's type.
struct RowsIn {
  const void* data = nullptr;  ///< on the device of the stream
  Count pitch = 0;             ///< in elements; 0: the tensor's columns
};

/// Rows in a tensor's code, and the output rows where they belong.
struct CodedRows {
  const void* rows = nullptr;  ///< [count, row_bytes], aligned to 4; readable by the stream's device
  const std::int32_t* positions = nullptr;  ///< [count], readable by it, too; -1: none
  Count count = 0;
};

/// Types that a gather can write for rows of `stored`: the same, f32 for all, bf16 (rounded to nearest even)
/// for f32 and f16.
constexpr bool can_gather(DType stored, DType out) {
  return stored == out || out == DType::f32 ||
         (out == DType::bf16 && (stored == DType::f32 || stored == DType::f16));
}

}  // namespace strata::tensor
