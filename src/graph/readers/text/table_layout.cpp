// SPDX-License-Identifier: Apache-2.0
#include "readers/text/table_layout.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "readers/column_names.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

/// The first comma, semicolon, bar or tab that stands outside of quotes; else blanks.
std::string find_separator(std::string_view line) {
  for (const char candidate : {',', ';', '|', '\t'}) {
    bool quoted = false;
    for (const char c : line) {
      quoted ^= c == '"';
      if (c == candidate && !quoted) return {candidate};
    }
  }
  return " ";
}

std::vector<std::string> split_line(std::string_view line, std::string_view separator, const Place& place) {
  FieldsOfLine fields(line, separator, place);
  std::vector<std::string> all;
  while (const auto field = fields.next()) all.emplace_back(*field);
  return all;
}

/// The names of the columns in a comment, as numpy.savetxt and SNAP write them; empty if it holds none.
std::vector<std::string> names_in_comment(std::string_view comment, const TableLayout& layout,
                                          const Place& place) {
  const std::size_t first = comment.find_first_not_of("#% \t");
  if (first == comment.npos || comment.find('"') != comment.npos) return {};
  std::vector<std::string> names = split_line(comment.substr(first), layout.separator, place);
  const bool edges =
      find_column(names, ColumnRole::source) >= 0 && find_column(names, ColumnRole::target) >= 0;
  const bool nodes = names.size() > 1 && has_role(names[0], ColumnRole::id) && are_column_names(names);
  return std::ssize(names) == layout.cols && (edges || nodes) ? names : std::vector<std::string>{};
}

bool equals(std::string_view field, std::string_view lower) {
  return std::ranges::equal(field, lower, {},
                            [](char c) { return std::tolower(static_cast<unsigned char>(c)); });
}

}  // namespace

TableLayout layout_of(const Block& block, const std::string& path, const TableRules& rules) {
  TableLayout layout{.separator = rules.separator.empty() ? " " : rules.separator};
  Lines lines(block.text);
  std::string_view comment, line;
  Count number = block.line - 1;
  const auto next = [&] {
    ++number;
    return lines.next(line);
  };
  const auto begin = [&] {
    layout.first_line = number;
    layout.values_at = at(line.data() - block.text.data());
  };
  bool found = false;
  while (!found && next()) {
    const bool blank = line.find_first_not_of(" \t") == line.npos;
    if (blank && !rules.skip_blank_lines) {
      begin();  // a row without values: names cannot follow
      layout.cols = 1;
      return layout;
    }
    found = !is_comment(line, kCommentMarks);
    if (found || blank) continue;
    rules.note_comment(line);
    comment = line;
  }
  if (!found) {
    layout.first_line = number;
    layout.values_at = block.text.size();
    return layout;
  }
  begin();
  if (rules.separator.empty()) layout.separator = find_separator(line);
  const Place place = place_of(line, number, block, path);
  std::vector<std::string> fields = split_line(line, layout.separator, place);
  layout.cols = std::ssize(fields);
  const bool text =
      std::ranges::none_of(fields, [](const auto& field) { return first_invalid_utf8(field).has_value(); });
  if (!text || !rules.are_names(fields)) {
    layout.names = names_in_comment(comment, layout, place);
    layout.first = std::move(fields);
    return layout;
  }
  layout.names = std::move(fields);
  if (next()) {
    begin();
    if (!is_comment(line, kCommentMarks))
      layout.first = split_line(line, layout.separator, place_of(line, number, block, path));
  } else {
    layout.first_line = number;
    layout.values_at = block.text.size();
  }
  return layout;
}

bool is_number(std::string_view field) {
  double value = 0;
  const auto [stop, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return stop == field.data() + field.size() && error != std::errc::invalid_argument;
}

bool is_missing(std::string_view field) {
  static constexpr std::array<std::string_view, 7> kWords{"", "na", "n/a", "nan", "null", "none", "?"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return equals(field, word); });
}

bool is_boolean(std::string_view field) { return equals(field, "true") || equals(field, "false"); }

bool are_column_names(const std::vector<std::string>& fields) {
  const auto is_name = [](std::string_view field) {
    return !is_missing(field) && !is_boolean(field) && !is_number(field) &&
           (std::isalpha(static_cast<unsigned char>(field[0])) != 0 || field[0] == '_' ||
            (field[0] & '\x80') != 0);
  };
  const bool all = std::ranges::all_of(
      fields, [&](std::string_view field) { return is_name(field) || is_missing(field); });
  if (all) return std::ranges::any_of(fields, is_name);
  if (fields.size() < 2 || !(fields[0].empty() || has_role(fields[0], ColumnRole::id))) return false;
  for (std::size_t column = 1; column < fields.size(); ++column)
    if (fields[column] != std::to_string(column - 1)) return false;
  return true;
}

}  // namespace strata::graph
