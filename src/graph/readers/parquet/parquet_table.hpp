// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "readers/parquet/parquet_file.hpp"

namespace strata::graph {

/// The files of a table: FOLDER/NAME.parquet, FOLDER/NAME-*.parquet, or those in a folder NAME or
/// NAME.parquet, in the order of their names. None if there is no such table. Throws InputError if there are
/// two.
std::vector<std::filesystem::path> table_files(const std::filesystem::path& folder, const std::string& name);

/// Some consecutive rows of a table. A view.
struct TablePiece {
  std::span<const ParquetPiece> columns;  ///< in the order of the wishes
  Count first_row = 0;                    ///< counted over all files
  double share_read = 0;                  ///< of all rows, with these
  const std::filesystem::path& file;
  int row_group = 0;
  Count first_of_group = 0;  ///< counted from the beginning of the row group

  Count rows() const { return columns[0].rows; }
  /// For messages: "edges.parquet: row group 2, row 17, column 'src'". `row` counts from this piece's first.
  std::string place(Count row, const std::string& column) const;
};

/// A table of one or several Parquet files, which have the same columns. Files are opened one after the
/// other.
class ParquetTable {
 public:
  /// Looks at the columns of every file. Throws InputError for files that are no Parquet or differ. REQUIRES:
  /// there is a file.
  explicit ParquetTable(std::vector<std::filesystem::path> files);

  const std::vector<ParquetColumn>& columns() const { return columns_; }  ///< sizes are of all files
  Count rows() const { return rows_; }
  std::string origin() const;  ///< for messages: the file, or the first of several

  /// The index of a column, or -1.
  int find(const std::string& name) const;
  /// The same. Throws InputError with the nearest name. `option` is what named it.
  int require(const std::string& name, const std::string& option) const;

  /// Values per row of a column. Throws InputError if the sizes show that rows differ in their number of
  /// values.
  Count width(int column) const;

  /// Gives the rows piece by piece, in the order of the files, and shows how far it has come. A piece has
  /// about `values_at_once` values. Throws InputError with file, row group and column.
  void read(const std::vector<ParquetWish>& wishes, Count values_at_once,
            const std::function<void(const TablePiece&)>& take) const;

 private:
  [[noreturn]] void refuse_rows(Count read) const;
  void add(const std::vector<ParquetColumn>& columns, const std::filesystem::path& file);

  std::vector<std::filesystem::path> files_;
  std::vector<ParquetColumn> columns_;
  Count rows_ = 0;
};

}  // namespace strata::graph
