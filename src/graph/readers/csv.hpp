// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "readers/text/table_layout.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// Numbers of a table, row-major.
template <typename T>
struct CsvTable {
  Count rows = 0, cols = 0;
  std::vector<T> values;  ///< [rows, cols]
};

struct CsvExpectation {
  std::optional<Count> rows, cols;
  std::string rows_from;          ///< where the number of rows is stated; used in messages
  std::vector<int> columns = {};  ///< which columns to read, ascending; empty: all
};

/// The layout of a table of numbers by its first lines; see layout_of(). Throws as read_csv().
TableLayout csv_layout(const std::filesystem::path& path);

/// Counts the lines of a table without reading their values. Blank ones at the end may be missing values of a
/// single column.
struct CsvRows {
  Count rows = 0, blank_at_end = 0;
};
CsvRows count_csv_rows(const std::filesystem::path& path);

/// Reads a table of numbers, which may be compressed by gzip or zstd. The first line determines the separator
/// of fields: a comma, semicolon, bar, tab or blanks. Fields of an integer table must be integers. Fields of
/// a floating-point table may be missing: empty, `NA`, `nan`, `null`, `None` or `?`, which are read as `nan`.
/// Fields may stand in double quotes.
///
/// Comments before the first line, and a first line of names (with a warning, unless `columns` says that they
/// were used), are skipped. Blank lines at the end are rows only as far as rows are wanted. One
/// thread inflates, all threads parse. Throws InputError with file and line: missing, empty (gzip of no text
/// is a table without rows), ragged, not a number, not UTF-8, damaged gzip, or not as expected; OutOfMemory.
/// T is NodeId, float or double.
template <typename T>
CsvTable<T> read_csv(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool);

/// Some consecutive rows of a table. A view.
template <typename T>
struct CsvPiece {
  std::span<const T> values;  ///< [rows, cols]
  Count cols = 0;
  double share_read = 0;  ///< how much of the file these rows and all before them are
  Count first_row = 0;

  Count rows() const { return cols == 0 ? 0 : std::ssize(values) / cols; }
};

/// Reads rows as read_csv() does, but piece by piece, in the order of the file; returns their number. With
/// `scratch`, pieces are as small as its buffers want.
template <typename T>
Count read_csv_pieces(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool,
                      const ScratchStore* scratch, const std::function<void(const CsvPiece<T>&)>& take);

extern template CsvTable<NodeId> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);
extern template CsvTable<float> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);
extern template CsvTable<double> read_csv(const std::filesystem::path&, const CsvExpectation&, ThreadPool&);

extern template Count read_csv_pieces(const std::filesystem::path&, const CsvExpectation&, ThreadPool&,
                                      const ScratchStore*,
                                      const std::function<void(const CsvPiece<NodeId>&)>&);
extern template Count read_csv_pieces(const std::filesystem::path&, const CsvExpectation&, ThreadPool&,
                                      const ScratchStore*,
                                      const std::function<void(const CsvPiece<float>&)>&);
extern template Count read_csv_pieces(const std::filesystem::path&, const CsvExpectation&, ThreadPool&,
                                      const ScratchStore*,
                                      const std::function<void(const CsvPiece<double>&)>&);

}  // namespace strata::graph
