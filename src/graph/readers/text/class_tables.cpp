// SPDX-License-Identifier: Apache-2.0
#include "readers/text/class_tables.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <map>
#include <optional>
#include <string>

#include "readers/column_names.hpp"
#include "readers/csv.hpp"
#include "readers/node_table.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

/// A column by its name, or by its usual one.
int column_of(const TableLayout& layout, const std::string& name, const char* option, ColumnRole role,
              const std::string& origin) {
  if (!name.empty()) return require_column(layout.names, name, option, origin);
  const int column = find_column(layout.names, role);
  if (column < 0)
    throw InputError(fmt::format("{}: which column is the {}?", origin, option),
                     fmt::format("Name it behind the input: ,{}=COLUMN.", option));
  return column;
}

/// The nodes of one table and the names of their classes.
struct Classes {
  fs::path path;
  std::vector<NodeId> nodes;
  std::vector<std::string> names;
};

Classes read_table(const fs::path& path, const DatasetSource& source, const Graph& graph, ThreadPool& pool) {
  const NodeTable table{.path = path, .layout = csv_layout(path)};
  const std::string origin = path.string();
  const int id = column_of(table.layout, source.tables.id, "id", ColumnRole::id, origin),
            label = column_of(table.layout, source.tables.label, "label", ColumnRole::label, origin);
  return {.path = path,
          .nodes = read_node_ids(table, id, graph, pool, nullptr),
          .names = read_words(table, label, "class", pool)};
}

}  // namespace

std::vector<fs::path> class_tables(const DatasetSource& source) {
  std::vector<fs::path> tables;
  for (const fs::path& table : {source.train, source.valid, source.test})
    if (!table.empty()) tables.push_back(folder_of(source.place) / table);
  return tables;
}

void read_class_tables(const DatasetSource& source, ThreadPool& pool, Graph& graph) {
  std::vector<Classes> tables;
  std::map<std::string, std::int32_t> numbers;
  for (const fs::path& path : class_tables(source)) {
    tables.push_back(read_table(path, source, graph, pool));
    for (const std::string& name : tables.back().names) numbers.emplace(name, 0);
  }
  if (tables.empty()) return;
  std::int32_t next = 0;
  for (auto& [name, number] : numbers) {
    number = next++;
    spdlog::info("class {}: {}", number, printable(name));
  }
  graph.labels.assign(at(graph.num_nodes()), -1);
  graph.num_classes = next;
  for (const Classes& table : tables)
    for (std::size_t row = 0; row < table.nodes.size(); ++row)
      graph.labels[at(table.nodes[row])] = numbers.at(table.names[row]);
  auto read = tables.begin();
  if (!source.train.empty()) graph.splits.train = std::move((read++)->nodes);
  if (!source.valid.empty()) graph.splits.valid = std::move((read++)->nodes);
  if (!source.test.empty()) graph.splits.test = std::move((read++)->nodes);
}

}  // namespace strata::graph
