// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "readers/assemble.hpp"
#include "readers/edge_weights.hpp"
#include "readers/parquet/parquet_table.hpp"
#include "readers/parquet/table_roles.hpp"
#include "readers/text/edge_buffer.hpp"
#include "readers/text/node_numbering.hpp"

namespace strata::graph {

/// A table with a row per node: their ids, features, labels and splits. A node's number is its row.
class ParquetNodes {
 public:
  /// Opens the table, reads its ids if it has some, and logs which column does what.
  ParquetNodes(std::vector<std::filesystem::path> files, const TableNames& names, Assembly& assembly);

  const ParquetTable& table() const { return table_; }
  const NodeRoles& roles() const { return roles_; }
  std::string names() const { return numbering_.names(); }  ///< a line per node; empty: they have none
  bool has_ids() const { return roles_.id >= 0; }
  bool has_words() const;  ///< whether ids are text
  void forget_ids() { numbering_ = {}; }

  template <typename Id>
  NodeId node_of(Id id, const TablePiece& piece, Count row, const std::string& column) const;

  FeatureTable read_features() const;
  void read_target(Graph& nodes) const;  ///< labels and splits, if there are some

 private:
  void read_ids();
  template <typename Id>
  void number(Id id, const TablePiece& piece, const std::string& column);
  void refuse_bad_name(std::string_view word, const TablePiece& piece, const std::string& column) const;
  void copy_features(const TablePiece& piece, std::size_t index, const ParquetWish& wish, float* out,
                     Count stride) const;
  void read_labels(Graph& nodes) const;
  void read_splits(Graph& nodes) const;

  Assembly& assembly_;
  ParquetTable table_;
  NodeRoles roles_;
  NodeNumbering numbering_;
};

/// A table with a row per edge.
class ParquetEdges {
 public:
  /// The ends of its edges are nodes of these tables; null: nodes have no table, and ids are their numbers.
  struct Ends {
    const ParquetNodes *sources = nullptr, *targets = nullptr;
  };
  ParquetEdges(std::vector<std::filesystem::path> files, const TableNames& names, Assembly& assembly);

  struct Read {
    EdgeBuffer pairs;
    std::optional<EdgeWeights> weights;
  };
  Read read(const Ends& ends) const;
  std::string origin() const { return table_.origin(); }

 private:
  void require_ids_alike(int column, const ParquetNodes* nodes) const;
  void take_ends(const TablePiece& piece, std::size_t end, const ParquetNodes* nodes,
                 std::vector<NodeId>& pairs) const;
  const std::vector<float>& checked_weights(const TablePiece& piece) const;

  Assembly& assembly_;
  ParquetTable table_;
  EdgeRoles roles_;
};

/// The tables of a folder of a graph of several types, by their names: nodes/TYPE.parquet, or
/// edges/SOURCE__NAME__DESTINATION.parquet. Each may be several files, as table_files() has them.
std::vector<std::string> typed_parquet_tables(const std::filesystem::path& folder);
/// Whether a folder has types: tables of edges whose names are those of relations.
bool has_parquet_types(const std::filesystem::path& folder);

}  // namespace strata::graph
