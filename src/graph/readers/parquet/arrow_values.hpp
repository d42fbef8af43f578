// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <arrow/array.h>

#include "readers/parquet/parquet_file.hpp"

namespace strata::graph {

/// The values of an array of Arrow as the wish wants them; words are views of the array.
///
/// Throws std::runtime_error for a missing list and for one that has not wish.width values.
ParquetPiece piece_of(const arrow::Array& array, const ParquetWish& wish);

/// The kind of values that arrays of this type hold, encoded by dictionaries or not; lists are `other`.
ParquetColumn::Kind kind_of(const arrow::DataType& type);

/// The type of the values in lists; null for a type that is no list.
std::shared_ptr<arrow::DataType> type_in_lists(const arrow::DataType& type);

}  // namespace strata::graph
