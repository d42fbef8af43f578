// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/util/scratch.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// Numbers of a CSV file, row-major.
template <typename T>
struct CsvTable {
  Count rows = 0, cols = 0;
  std::vector<T> values;  ///< [rows, cols]
};

struct CsvExpectation {
  std::optional<Count> rows, cols;
  std::string rows_from;  ///< where the number of rows is stated; used in messages
};

/// Reads a CSV file, which may be compressed by gzip. Fields of an integer table must be integers. Fields of
/// a floating-point table may be `nan`; empty ones are read as `nan`.
///
/// A byte order mark is skipped. A first line whose fields are all names is skipped with a warning. One
/// thread inflates, all threads parse. Throws InputError with file and line: missing, empty (gzip of no text
/// is a table without rows), ragged, not a number, not UTF-8, damaged gzip, or not as expected; OutOfMemory.
/// T is NodeId, float or double.
template <typename T>
CsvTable<T> read_csv(const std::filesystem::path& path, const CsvExpectation& expected, ThreadPool& pool);

/// Some consecutive rows of a CSV file. A view.
template <typename T>
struct CsvPiece {
  std::span<const T> values;  ///< [rows, cols]
  Count cols = 0;
  double share_read = 0;  ///< how much of the file these rows and all before them are

  Count rows() const { return cols == 0 ? 0 : std::ssize(values) / cols; }
};

/// As read_csv(), but gives the rows piece by piece, in the order of the file, and returns their number. With
/// `scratch`, pieces are as small as its buffers want. T is NodeId or float.
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

}  // namespace strata::graph
