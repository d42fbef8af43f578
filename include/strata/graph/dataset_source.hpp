// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::graph {

/// Names of tables of edges and nodes and of their columns. Empty: their usual names, see
/// docs/data.md.
struct TableNames {
  std::string edges = "edges", nodes = "nodes";
  std::string source = {}, target = {}, weight = {}, time = {};  ///< columns of the edges
  std::string id = {}, label = {}, split = {};                   ///< columns of the nodes
  std::vector<std::string> features = {};                        ///< the same
};

/// Files of a graph that strata-partition did not write, and how to read them.
struct DatasetSource {
  enum class Format { ogb, graphbolt, npy, edge_list, metis, matrix_market, igb, dgl_chunked, parquet };
  /// The kind of ids in a list of edges: the nodes' numbers, other integers, or any text.
  enum class Ids { number, sparse, string };

  Format format = Format::ogb;
  std::filesystem::path place;  ///< a folder or a file
  std::string choice = {};      ///< name of the split (ogb) or the task (graphbolt); empty: the only one
  std::optional<Count> weight_column = {};  ///< of the edge features (ogb) or of the list of edges
  std::optional<Count> nodes = {};          ///< number of nodes, where the files do not have it
  /// The file that `nodes` counts the rows of; empty: the user gave it. `spare_nodes` more may exist.
  std::string nodes_from = {};
  Count spare_nodes = 0;

  // These are for a list of edges. Columns count from 0, or have names in `tables`.
  std::optional<Count> source_column = {}, destination_column = {};
  Ids ids = Ids::number;
  std::string separator = {};  ///< " ": any run of blanks; empty: found in the first line
  std::optional<Count> time_column = {};
  /// Bounds of the time column; edges of another time are left out.
  double since = -std::numeric_limits<double>::infinity(), until = std::numeric_limits<double>::infinity();
  std::optional<bool> header = {};  ///< whether a line names the columns; none: found in the first line

  Count classes = 19;          ///< igb: which of its two sets of labels, 19 or 2983
  bool ignore_values = false;  ///< matrix_market: entries are edges without weights
  TableNames tables = {};      ///< parquet, edge_list
};

/// The forms in which a user names the sources that read_graph() takes:
/// "ogb:DIR[,split=NAME][,weight=COLUMN]".
std::vector<std::string> dataset_forms();

/// The sources that this folder or file may have been meant to be, such as "ogb:DIR"; empty if it does not
/// look like a dataset.
std::string dataset_hint(const std::filesystem::path& path);

}  // namespace strata::graph
