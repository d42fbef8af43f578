// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace strata::graph {

/// The role of a column of a table of edges or nodes, by its name. The same names hold for text and
/// Parquet.
enum class ColumnRole { source, target, weight, id, label, split };

/// Whether a column of this name usually has the role. Capitals, "_", "-" and blanks do not matter.
bool has_role(std::string_view name, ColumnRole role);

/// The column with the most usual name of a role, or -1.
int find_column(const std::vector<std::string>& names, ColumnRole role);

/// The column that a user named, with or without its capitals. Throws InputError with the nearest name if
/// there is none; `option` is what named it.
int require_column(const std::vector<std::string>& names, const std::string& name, const std::string& option,
                   const std::string& origin);

/// The columns of an edge's two nodes; -1: not known.
struct EdgeEnds {
  int source = -1, target = -1;
};

/// Completes what was asked for: by the usual names, else the first two columns.
///
/// Throws InputError where these cannot be meant: only one of the nodes has a usual name and stands
/// elsewhere, or one of the first two columns numbers the edges.
EdgeEnds ends_of_edges(EdgeEnds asked, const std::vector<std::string>& names, const std::string& origin);

/// Whether a column of a table of nodes is left out where features are not named: labels, splits and masks
/// ("train_mask") would give away what is to be learned.
bool is_no_feature(std::string_view name);

}  // namespace strata::graph
