// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "readers/csv.hpp"
#include "strata/graph/graph.hpp"

namespace strata::graph {

/// A table of nodes as text, and which of its columns are read, by their names if it has any.
struct NodeTable {
  enum class Holds { features, labels, split };

  std::filesystem::path path;
  TableLayout layout;
  int id = -1;                    ///< the column of ids; -1: rows are in the order of nodes
  std::vector<int> columns = {};  ///< of values, ascending; empty: all

  /// Looks at the first lines. Of several columns that a line names, a column of ids (of a usual name, or the
  /// first without a name, as pandas writes its index) gives rows their nodes; a column of labels is what a
  /// table of labels is read for; and features are numbers, without labels, splits, masks and truth values.
  /// Throws InputError.
  static NodeTable look_at(const std::filesystem::path& path, Holds holds);

  /// Logs what is read, and warns of columns that are not. Call it once per file.
  void log(const char* what) const;

  /// The expectation for a reader of the columns.
  CsvExpectation expecting(std::optional<Count> rows) const;
};

/// The nodes that a column of ids names, row by row: by their names in the graph, or their numbers. Throws
/// InputError with the line for ids that the graph does not have.
std::vector<NodeId> read_node_ids(const NodeTable& table, int column, const Graph& graph, ThreadPool& pool,
                                  const ScratchStore* scratch);

/// The fields of a column as text, row by row. An empty one is refused if `what` says what it should hold.
std::vector<std::string> read_words(const NodeTable& table, int column, const char* what, ThreadPool& pool);

/// The largest number in the column of ids, or -1.
NodeId largest_node_id(const NodeTable& table, ThreadPool& pool);

}  // namespace strata::graph
