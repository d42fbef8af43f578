// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::graph {

/// A column of a Parquet file: a value per row, or a list of numbers per row.
struct ParquetColumn {
  enum class Kind { integer, real, boolean, text, other };

  std::string name;
  std::string type;  ///< as Arrow writes it, for messages
  Kind kind = Kind::other;
  bool lists = false;  ///< `kind` is what the lists hold
  Count values = 0;    ///< of all rows; an empty list and a missing value count as one
  Count bytes = 0;     ///< of all rows, not compressed

  bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
};

/// A column to read, and what its values become.
struct ParquetWish {
  enum class As { integers, floats, doubles, words };

  int column = 0;
  As as = As::doubles;
  Count width = 1;  ///< values per row; a list of another length is refused
};

/// Some rows of a column. The vector that was wished for has rows * width values.
struct ParquetPiece {
  Count rows = 0;
  std::vector<std::int64_t> integers{};
  std::vector<float> floats{};    ///< NaN where a value is missing
  std::vector<double> doubles{};  ///< NaN where a value is missing
  std::vector<std::string_view> words{};
  std::vector<Count> missing{};  ///< rows without a value, ascending; of lists: of which one lacks
};

/// Reads columns of a row group, from its first row to its last.
class ParquetRows {
 public:
  virtual ~ParquetRows() = default;
  /// The next rows of every column; an empty vector at the end. Valid until the next call. Throws
  /// std::exception, which names the column.
  virtual const std::vector<ParquetPiece>& next() = 0;
};

/// A Parquet file. What implements it is a library of its own, so that only those who read such files need
/// Arrow: both sides are compiled together, and only the standard library's types pass between them.
class ParquetFile {
 public:
  virtual ~ParquetFile() = default;
  virtual const std::vector<ParquetColumn>& columns() const = 0;
  virtual const std::vector<Count>& row_groups() const = 0;  ///< rows of each
  /// At most `rows_at_once` rows of `columns` are held at a time, beside a page of each. The result must not
  /// outlive the file. Throws std::exception.
  virtual std::unique_ptr<ParquetRows> read(int row_group, const std::vector<ParquetWish>& columns,
                                            Count rows_at_once) = 0;
};

/// The function of the library by the name kOpenParquet: opens a file, which then belongs to the caller.
/// Throws std::exception.
using OpenParquet = ParquetFile*(const char* path);
constexpr const char* kParquetLibrary = "libstrata_parquet.so";
constexpr const char* kOpenParquet = "strata_open_parquet";

}  // namespace strata::graph
