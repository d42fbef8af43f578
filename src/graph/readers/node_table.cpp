// SPDX-License-Identifier: Apache-2.0
#include "readers/node_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <unordered_map>

#include "readers/column_names.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

/// Whether the first value of a column may be a number.
bool has_numbers(const TableLayout& layout, int column) {
  const auto at = static_cast<std::size_t>(column);
  return at >= layout.first.size() || is_number(layout.first[at]) || is_missing(layout.first[at]);
}

/// Gives the fields of a column, row by row and in order: parse(field, place) -> Value.
template <typename Value, typename Parse>
std::vector<Value> parse_column(const NodeTable& table, int column, ThreadPool& pool,
                                const ScratchStore* scratch, const Parse& parse) {
  LineBlocks blocks(table.path, block_bytes_within(scratch, pool));
  const std::string path = table.path.string();
  std::vector<Value> values;
  parse_blocks<std::vector<Value>>(
      blocks, pool,
      [&](const Block& block, std::vector<Value>& piece) {
        Lines lines(block.text);
        Count number = block.line;
        for (std::string_view line; lines.next(line); ++number) {
          if (number < table.layout.first_line || line.find_first_not_of(' ') == line.npos) continue;
          const Place place = place_of(line, number, block, path);
          FieldsOfLine fields(line, table.layout.separator, place);
          std::optional<std::string_view> field = fields.next();
          for (int c = 0; c < column && field; ++c) field = fields.next();
          if (!field) place.refuse(fmt::format("no column {}, counted from 0", column));
          piece.push_back(parse(*field, place));
        }
      },
      [&](std::vector<Value>& piece) { std::ranges::move(piece, std::back_inserter(values)); });
  return values;
}

NodeId number_in(std::string_view field, const Place& place) {
  return number_of<NodeId>(field, place, "id", "Ids are the numbers of nodes, from 0.");
}

std::unordered_map<std::string_view, NodeId> numbers_of_names(const Graph& graph) {
  std::unordered_map<std::string_view, NodeId> numbers;
  numbers.reserve(static_cast<std::size_t>(graph.num_nodes()));
  Lines lines(graph.node_names);
  for (std::string_view name; lines.next(name);) numbers.emplace(name, std::ssize(numbers));
  return numbers;
}

}  // namespace

NodeTable NodeTable::look_at(const std::filesystem::path& path, Holds holds) {
  NodeTable table{.path = path, .layout = csv_layout(path)};
  const std::vector<std::string>& names = table.layout.names;
  const bool split = holds == Holds::split;
  if (names.empty() || (names.size() == 1 && !split)) return table;
  table.id = find_column(names, ColumnRole::id);
  if (split) {
    if (table.id >= 0)
      table.columns = {table.id};
    else if (names.size() == 2 && names[0].empty())
      table.columns = {1};
    return table;
  }
  if (table.id < 0 && names[0].empty()) table.id = 0;
  const int label = holds == Holds::labels ? find_column(names, ColumnRole::label) : -1;
  for (int column = 0; column < static_cast<int>(names.size()); ++column) {
    const bool wanted =
        label >= 0 ? column == label
        : holds == Holds::labels
            ? true
            : has_numbers(table.layout, column) && !is_no_feature(names[static_cast<std::size_t>(column)]);
    if (wanted && column != table.id) table.columns.push_back(column);
  }
  if (table.id < 0 && table.columns.size() == names.size())
    table.columns.clear();  // all
  else if (table.columns.empty())
    throw InputError(fmt::format("{}: no column of it holds {}", path.string(),
                                 holds == Holds::labels ? "labels" : "features"),
                     "Columns of ids, labels, splits, masks and text are no features.");
  return table;
}

void NodeTable::log(const char* what) const {
  if (columns.empty()) return;
  std::vector<std::string> taken, unread;
  for (int column = 0; column < static_cast<int>(layout.names.size()); ++column) {
    std::string name = fmt::format("'{}'", printable(layout.names[static_cast<std::size_t>(column)]));
    if (std::ranges::find(columns, column) != columns.end())
      taken.push_back(std::move(name));
    else if (column != id)
      unread.push_back(std::move(name));
  }
  constexpr std::size_t kMostNames = 8;
  if (taken.size() > kMostNames) {
    taken[kMostNames - 1] = fmt::format("{} more", taken.size() - (kMostNames - 1));
    taken.resize(kMostNames);
  }
  const std::string by = id < 0 || columns[0] == id
                             ? ""
                             : fmt::format(", of the nodes that '{}' names",
                                           printable(layout.names[static_cast<std::size_t>(id)]));
  spdlog::info("{}: {} from {}{}", path.string(), what, fmt::join(taken, ", "), by);
  if (!unread.empty())
    spdlog::warn("{}: not read: {}, which are no {}", path.string(), fmt::join(unread, ", "), what);
}

CsvExpectation NodeTable::expecting(std::optional<Count> rows) const {
  return {.rows = rows, .cols = std::nullopt, .rows_from = "the graph's number of nodes", .columns = columns};
}

std::vector<NodeId> read_node_ids(const NodeTable& table, int column, const Graph& graph, ThreadPool& pool,
                                  const ScratchStore* scratch) {
  if (graph.node_names.empty())
    return parse_column<NodeId>(
        table, column, pool, scratch, [&](std::string_view field, const Place& place) {
          const NodeId id = number_in(field, place);
          if (id < 0 || id >= graph.num_nodes())
            place.refuse(fmt::format("id {}, but the graph has the nodes [0, {})", id, graph.num_nodes()),
                         "Ids count from 0, as those of the edges.");
          return id;
        });
  const auto numbers = numbers_of_names(graph);
  return parse_column<NodeId>(table, column, pool, scratch, [&](std::string_view field, const Place& place) {
    const auto found = numbers.find(field);
    if (found == numbers.end())
      place.refuse(fmt::format("no edge has the node '{}'", printable(field.substr(0, 40))),
                   "Leave out rows of nodes without edges, which have no number in this graph.");
    return found->second;
  });
}

std::vector<std::string> read_words(const NodeTable& table, int column, const char* what, ThreadPool& pool) {
  return parse_column<std::string>(
      table, column, pool, nullptr, [&](std::string_view field, const Place& place) {
        if (what != nullptr && field.empty())
          place.refuse(fmt::format("no {} in column {}, counted from 0", what, column));
        place.require_utf8(field);
        return std::string(field);
      });
}

NodeId largest_node_id(const NodeTable& table, ThreadPool& pool) {
  const std::vector<NodeId> ids = parse_column<NodeId>(table, table.id, pool, nullptr, number_in);
  return ids.empty() ? -1 : *std::ranges::max_element(ids);
}

}  // namespace strata::graph
