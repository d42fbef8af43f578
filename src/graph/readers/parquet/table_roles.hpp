// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "readers/parquet/parquet_table.hpp"
#include "strata/graph/read_graph.hpp"

namespace strata::graph {

/// The roles of a table's columns, as a person reads them: "sources from 'src'".
struct TableRoles {
  std::vector<std::string> notes{}, unread{};
};

/// The columns of a table of edges that are read; -1: there is none. Sources and targets that are not named
/// and have no usual name are the first two. column_names.hpp has the usual names.
struct EdgeRoles : TableRoles {
  int source = 0, target = 1, weight = -1;
};

/// The columns of a table of nodes that are read; -1: there is none. Features that are not named are the
/// other columns of numbers, without masks ("train_mask") and truth values.
struct NodeRoles : TableRoles {
  int id = -1, label = -1, split = -1;
  std::vector<int> features{};
};

/// Finds them by the names that are given, or the usual ones.
///
/// Throws InputError for a column that is not there, that does two things, or whose type does not fit.
EdgeRoles roles_of_edges(const ParquetTable& edges, const TableNames& names);
NodeRoles roles_of_nodes(const ParquetTable& nodes, const TableNames& names);

}  // namespace strata::graph
