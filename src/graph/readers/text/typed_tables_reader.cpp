// SPDX-License-Identifier: Apache-2.0
// Graphs of several types as tables of text: nodes/TYPE.csv and edges/SOURCE__NAME__DESTINATION.csv.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "readers/column_names.hpp"
#include "readers/columns.hpp"
#include "readers/node_table.hpp"
#include "readers/text/typed_tables.hpp"
#include "readers/typed_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

/// The name of a table without its endings; empty if it is none.
std::string table_name(const fs::path& file) {
  fs::path name = file.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  const fs::path ending = name.extension();
  return ending == ".csv" || ending == ".tsv" || ending == ".txt" ? name.stem().string() : "";
}

/// The nodes of a type: which columns hold what, and the numbers of their names.
struct TypeTable {
  NodeTable table;
  Count rows = 0;
  int label = -1, split = -1;
  std::unordered_map<std::string, NodeId> numbers = {};  ///< empty: edges have the numbers of rows

  CsvExpectation expecting(std::vector<int> columns) const {
    return {.rows = rows,
            .cols = std::nullopt,
            .rows_from = "its number of lines",
            .columns = std::move(columns)};
  }
};

class TypedTablesReader {
 public:
  TypedTablesReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source), options_(options), pool_(assembly.pool), assembly_(assembly) {}

  Graph read() {
    const std::string origin = source_.place.string();
    if (has_keys_of_a_list())
      throw InputError(fmt::format("{}: a folder of tables, but a key of one list of edges", origin),
                       "Only target= and reverse may stand behind it; columns have their usual names.");
    parts_.name = fs::weakly_canonical(source_.place).filename().string();
    std::vector<std::size_t> labelled;
    for (const fs::path& file : tables("nodes", "type of nodes: nodes/TYPE.csv")) {
      read_nodes(file);
      if (types_.back().label >= 0 || types_.back().split >= 0) labelled.push_back(types_.size() - 1);
    }
    assembly_.targets = choose_targets(parts_.nodes, labelled, source_.tables.target, origin);
    for (const fs::path& file : tables("edges", "relation: edges/SOURCE__NAME__DESTINATION.csv"))
      read_relation(file);
    if (source_.reverse) add_reverses(parts_);
    Graph graph = join_types(std::move(parts_), options_, assembly_);
    for (const std::size_t target : assembly_.targets) {
      Graph nodes = nodes_of(graph, target);
      read_target(types_[target], nodes);
      put_nodes(std::move(nodes), target, graph);
    }
    return graph;
  }

 private:
  bool has_keys_of_a_list() const {
    const TableNames& names = source_.tables;
    return source_.source_column || source_.destination_column || source_.weight_column ||
           source_.time_column || source_.header || !source_.separator.empty() ||
           source_.ids != DatasetSource::Ids::number || (source_.nodes && source_.nodes_from.empty()) ||
           !names.source.empty() || !names.weight.empty() || !names.time.empty();
  }

  std::vector<fs::path> tables(const char* folder, const char* example) const {
    std::vector<fs::path> files = typed_tables(source_.place / folder);
    if (files.empty())
      throw InputError(fmt::format("{}: no table in it", (source_.place / folder).string()),
                       fmt::format("A graph of several types has one per {}.", example));
    return files;
  }

  void read_nodes(const fs::path& file) {
    TypeTable& type = types_.emplace_back();
    type.table = {.path = file, .layout = csv_layout(file)};
    const std::vector<std::string>& names = type.table.layout.names;
    if (names.empty())
      throw InputError(fmt::format("{}: no line names its columns", file.string()),
                       "Write a first line such as: id,age,income,label,split.");
    type.rows = count_csv_rows(file).rows;
    type.table.id = find_column(names, ColumnRole::id);
    type.label = find_column(names, ColumnRole::label);
    type.split = find_column(names, ColumnRole::split);
    for (int column = 0; column < static_cast<int>(names.size()); ++column) {
      const std::vector<std::string>& first = type.table.layout.first;
      const bool number =
          at(column) >= first.size() || is_number(first[at(column)]) || is_missing(first[at(column)]);
      if (column != type.table.id && number && !is_no_feature(names[at(column)]))
        type.table.columns.push_back(column);
    }
    TypedParts::Nodes& nodes = parts_.nodes.emplace_back();
    nodes.type = table_name(file);
    nodes.count = type.rows;
    if (!type.table.columns.empty())
      nodes.features = read_csv_features(file, type.expecting(type.table.columns), pool_, assembly_.scratch);
    if (type.table.id >= 0) nodes.names = number_names(type);
  }

  /// Numbers the names of a type by their rows; returns a line per name.
  std::string number_names(TypeTable& type) const {
    std::string lines;
    for (const std::string& name : read_words(type.table, type.table.id, "id", pool_)) {
      if (!type.numbers.emplace(name, std::ssize(type.numbers)).second)
        throw InputError(
            fmt::format("{}: the id '{}' stands twice", type.table.path.string(), printable(name)),
            "Write one row per node.");
      lines += name + "\n";
    }
    return lines;
  }

  std::size_t type_called(const std::string& name, const fs::path& file) const {
    const auto found = std::ranges::find(parts_.nodes, name, &TypedParts::Nodes::type);
    if (found != parts_.nodes.end()) return at(found - parts_.nodes.begin());
    throw InputError(fmt::format("{}: there is no table of the type '{}'", file.string(), printable(name)),
                     fmt::format("Write nodes/{}.csv.", printable(name)));
  }

  void read_relation(const fs::path& file) {
    EdgeType type = parse_relation(table_name(file), "__", file.string());
    const NodeTable table{.path = file, .layout = csv_layout(file)};
    const EdgeEnds ends = ends_of_edges({}, table.layout.names, file.string());
    const std::vector<NodeId> sources =
                                  numbers_in(table, ends.source, types_[type_called(type.source, file)]),
                              destinations =
                                  numbers_in(table, ends.target, types_[type_called(type.destination, file)]);
    std::vector<NodeId> pairs;
    for (std::size_t e = 0; e < sources.size(); ++e) pairs.insert(pairs.end(), {sources[e], destinations[e]});
    EdgeBuffer buffer(file.string(), assembly_.scratch);
    buffer.append(pairs, 1);
    TypedParts::Edges edges = edges_between(std::move(type), std::move(buffer));
    if (const int weight = find_column(table.layout.names, ColumnRole::weight); weight >= 0)
      give_weights(
          edges,
          read_csv_weights(
              file, 0,
              {.rows = edges.list.count, .cols = std::nullopt, .rows_from = "its edges", .columns = {weight}},
              pool_, assembly_.scratch),
          file.string());
    parts_.edges.push_back(std::move(edges));
  }

  /// The nodes of a column: by their names, or their numbers.
  std::vector<NodeId> numbers_in(const NodeTable& table, int column, const TypeTable& type) const {
    const std::vector<std::string> words = read_words(table, column, "node", pool_);
    const std::string path = table.path.string();
    std::vector<NodeId> ids;
    for (std::size_t row = 0; row < words.size(); ++row) {
      if (type.table.id < 0) {
        ids.push_back(
            number_of<NodeId>(words[row], {path, table.layout.first_line + static_cast<Count>(row)}, "id"));
        continue;
      }
      const auto found = type.numbers.find(words[row]);
      if (found == type.numbers.end())
        throw InputError(
            fmt::format("{}: '{}' is not an id of {}", path, printable(words[row]), type.table.path.string()),
            "Write a row for every node.");
      ids.push_back(found->second);
    }
    return ids;
  }

  void read_target(const TypeTable& type, Graph& nodes) const {
    if (type.label >= 0) {
      NodeLabels labels = read_csv_labels(type.table.path, type.expecting({type.label}), pool_, nullptr);
      nodes.labels = std::move(labels.values);
    }
    if (type.split < 0) return;
    const std::vector<std::string> words = read_words(type.table, type.split, nullptr, pool_);
    for (NodeId v = 0; v < std::ssize(words); ++v) {
      const std::string& word = words[at(v)];
      if (word == "train")
        nodes.splits.train.push_back(v);
      else if (word == "valid" || word == "val" || word == "validation")
        nodes.splits.valid.push_back(v);
      else if (word == "test")
        nodes.splits.test.push_back(v);
      else if (!is_missing(word) && word != "none")
        throw InputError(
            fmt::format("{}: the split '{}' of node {}", type.table.path.string(), printable(word), v),
            "Splits are train, valid, test, or none.");
    }
  }

  const DatasetSource& source_;
  const ReadOptions& options_;
  ThreadPool& pool_;
  Assembly& assembly_;
  TypedParts parts_;
  std::vector<TypeTable> types_;
};

}  // namespace

std::vector<fs::path> typed_tables(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code))
    if (!table_name(entry.path()).empty()) files.push_back(entry.path());
  std::ranges::sort(files, {}, table_name);
  return files;
}

Graph read_typed_tables(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return TypedTablesReader(source, options, assembly).read();
}

}  // namespace strata::graph
