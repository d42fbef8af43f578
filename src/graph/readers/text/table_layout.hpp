// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "readers/text/fields.hpp"
#include "readers/text/line_blocks.hpp"

namespace strata::graph {

/// The layout of a table in a text file, by its first lines.
struct TableLayout {
  std::string separator = " ";          ///< " ": any run of blanks
  Count cols = 0;                       ///< 0: there is no line
  std::vector<std::string> names = {};  ///< of the columns; empty: no line names them
  std::vector<std::string> first = {};  ///< the fields of the first line of values, if there is one
  Count first_line = 1;                 ///< number of the first line that may hold values
  std::size_t values_at = 0;            ///< offset of this line in the first block
};

/// The rules for the first lines of a format.
struct TableRules {
  std::string separator = {};  ///< empty: found in the first line
  /// Whether these fields of the first line name the columns.
  std::function<bool(const std::vector<std::string>&)> are_names;
  std::function<void(std::string_view)> note_comment = [](std::string_view) {};
  bool skip_blank_lines = false;  ///< before the first line; otherwise a blank line is a row
};

/// Looks at the first block of a file. Comments before the first line are skipped; if the last of them has
/// the usual names of the nodes of edges, or begins with that of ids, it names the columns.
TableLayout layout_of(const Block& block, const std::string& path, const TableRules& rules);

constexpr std::string_view kCommentMarks = "#%";

bool is_number(std::string_view field);
/// Whether a field is empty or what programs write for that: NA, N/A, nan, null, None, or "?".
bool is_missing(std::string_view field);
bool is_boolean(std::string_view field);  ///< true or false, with or without capitals

/// Whether a line of a table of numbers names its columns: some fields are text, and the others empty. Behind
/// the name of a column of ids, or none, columns may be numbered from 0, as pandas does.
bool are_column_names(const std::vector<std::string>& fields);

}  // namespace strata::graph
