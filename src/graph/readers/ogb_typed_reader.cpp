// SPDX-License-Identifier: Apache-2.0
// OGB's sets of several types of nodes, as tables or as arrays of NumPy.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "readers/columns.hpp"
#include "readers/csv.hpp"
#include "readers/ogb_tables.hpp"
#include "readers/text/fields.hpp"
#include "readers/text/line_blocks.hpp"
#include "readers/typed_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;
using Rows = std::vector<std::vector<std::string>>;

/// The fields of a small table, whose lines all have `cols` of them, or as many as the first.
Rows read_fields(const fs::path& path, std::size_t cols = 0) {
  LineBlocks blocks(path);
  Block block;
  Rows rows;
  const std::string name = path.string();
  while (blocks.next(block)) {
    Lines lines(block.text);
    Count number = block.line;
    for (std::string_view line; lines.next(line); ++number) {
      const Place place = place_of(line, number, block, name);
      place.require_utf8(line);
      FieldsOfLine fields(line, ",", place);
      std::vector<std::string>& row = rows.emplace_back();
      while (const auto field = fields.next()) row.emplace_back(*field);
      if (cols == 0) cols = row.size();
      if (row.size() != cols)
        place.refuse(fmt::format("{} instead of {}", counted(std::ssize(row), "field"), cols));
    }
  }
  return rows;
}

/// Refuses names that are no folder's, such as "../other".
void check_names(const std::vector<std::string>& names, const fs::path& path) {
  for (const std::string& name : names)
    if (name.empty() || name.find('/') != name.npos || name.starts_with('.'))
      throw InputError(
          fmt::format("{}: '{}' is no name of a type or a relation", path.string(), printable(name)),
          "Names are those of folders: letters, digits and underscores.");
}

/// A table with a line of types and a line with a value of each.
struct ValuesOfTypes {
  std::vector<std::string> types, values;

  bool is_true(const std::string& type) const {
    const auto found = std::ranges::find(types, type);
    return found != types.end() && values[at(found - types.begin())] == "True";
  }
};

ValuesOfTypes read_values_of_types(const fs::path& path) {
  Rows rows = read_fields(path);
  if (rows.size() != 2)
    throw InputError(fmt::format("{}: {} lines", path.string(), rows.size()),
                     "A line of types and a line of their values are expected: sets of one graph.");
  check_names(rows[0], path);
  return {.types = std::move(rows[0]), .values = std::move(rows[1])};
}

/// The number in an array with one for each graph of a set. Refuses sets of several graphs.
Count count_in(const NpzFile& file, const std::string& name) {
  const NpyArray array = file.array(name);
  const std::vector<NodeId> counts = ids_of(array);
  if (counts.size() != 1 || counts[0] < 0)
    throw InputError(fmt::format("{}: not the number of one graph", array.origin),
                     "Only sets of one graph are supported.");
  return counts[0];
}

class TypedOgbReader {
 public:
  TypedOgbReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source),
        raw_(source.place / "raw"),
        is_binary_(fs::exists(raw_ / "edge_index_dict.npz")),
        options_(options),
        pool_(assembly.pool),
        assembly_(assembly) {
    parts_.name = fs::weakly_canonical(source.place).filename().string();
  }

  Graph read() {
    if (source_.weight_column)
      throw InputError(fmt::format("{}: weight= of a graph of several types", source_.place.string()),
                       "Edge features of several relations are not read; leave it out.");
    is_binary_ ? read_node_arrays() : read_nodes();
    is_binary_ ? read_relation_arrays() : read_relations();
    if (source_.reverse) add_reverses(parts_);
    Graph graph = join_types(std::move(parts_), options_, assembly_);
    for (const std::size_t target : assembly_.targets) read_target(target, graph);
    return graph;
  }

 private:
  void read_nodes() {
    const fs::path path = require_ogb_table(raw_, "num-node-dict");
    const ValuesOfTypes counts = read_values_of_types(path);
    std::vector<std::string> types = counts.types;
    std::ranges::sort(types);  // as OGB's package does
    for (const std::string& type : types) {
      const std::string& count =
          counts.values[at(std::ranges::find(counts.types, type) - counts.types.begin())];
      parts_.nodes.push_back(
          {.type = type, .count = number_of<Count>(count, {path.native(), 2, nullptr}, "number of nodes")});
      if (parts_.nodes.back().count < 0)
        throw InputError(fmt::format("{}: {} nodes of the type '{}'", path.string(), count, printable(type)),
                         "Correct the number.");
    }
    read_features();
    const std::optional<ValuesOfTypes> has_label = flags(raw_, "nodetype-has-label");
    std::vector<std::size_t> labelled;
    for (std::size_t t = 0; t < parts_.nodes.size(); ++t)
      if (table_of(raw_ / "node-label", parts_.nodes[t].type, "node-label", has_label)) labelled.push_back(t);
    assembly_.targets = choose_targets(parts_.nodes, labelled, source_.target, source_.place.string());
  }

  void read_node_arrays() {
    const NpzFile counts(raw_ / "num_nodes_dict.npz");
    check_names(counts.names(), raw_ / "num_nodes_dict.npz");
    for (const std::string& type : counts.names())  // ascending, as OGB's package sorts them
      parts_.nodes.push_back({.type = type, .count = count_in(counts, type)});
    if (const auto features = arrays_of("node_feat_dict.npz"))
      for (TypedParts::Nodes& nodes : parts_.nodes)
        if (features->contains(nodes.type))
          nodes.features = features_of(features->array(nodes.type, &pool_), nodes.count, pool_, nullptr);
    const std::optional<NpzFile> labels = arrays_of("node-label.npz");
    std::vector<std::size_t> labelled;
    for (std::size_t t = 0; t < parts_.nodes.size(); ++t)
      if (labels && labels->contains(parts_.nodes[t].type)) labelled.push_back(t);
    assembly_.targets = choose_targets(parts_.nodes, labelled, source_.target, source_.place.string());
  }

  std::optional<NpzFile> arrays_of(const char* name) const {
    return fs::exists(raw_ / name) ? std::optional<NpzFile>(raw_ / name) : std::nullopt;
  }

  void read_relation_arrays() {
    const NpzFile arrays(raw_ / "edge_index_dict.npz");
    std::vector<EdgeType> types;
    for (const std::string& name : arrays.names())
      types.push_back(parse_relation(name, "___", (raw_ / "edge_index_dict.npz").string()));
    // as OGB's package does, which sorts the three names, not the joined ones
    std::ranges::sort(types, {}, [](const EdgeType& t) { return std::tie(t.source, t.name, t.destination); });
    for (const EdgeType& type : types) {
      const std::string name = fmt::format("{}___{}___{}", type.source, type.name, type.destination);
      parts_.edges.push_back(edges_between(type, arrays.array(name, &pool_), assembly_.scratch));
    }
    if (fs::exists(raw_ / "edge_feat_dict.npz"))
      spdlog::warn("{}: edge features are not read", (raw_ / "edge_feat_dict.npz").string());
  }

  void read_features() {
    const std::optional<ValuesOfTypes> has = flags(raw_, "nodetype-has-feat");
    for (TypedParts::Nodes& nodes : parts_.nodes)
      if (const auto path = table_of(raw_ / "node-feat", nodes.type, "node-feat", has))
        nodes.features = read_csv_features(*path, rows_of(nodes), pool_, assembly_.scratch);
  }

  static CsvExpectation rows_of(const TypedParts::Nodes& nodes) {
    return {.rows = nodes.count, .cols = std::nullopt, .rows_from = "num-node-dict"};
  }

  static std::optional<ValuesOfTypes> flags(const fs::path& folder, const char* name) {
    const auto path = find_ogb_table(folder, name);
    return path ? std::optional(read_values_of_types(*path)) : std::nullopt;
  }

  /// The table of a type, which must be there if the flags say so.
  static std::optional<fs::path> table_of(const fs::path& folder, const std::string& type, const char* name,
                                          const std::optional<ValuesOfTypes>& flags) {
    if (flags && flags->is_true(type)) return require_ogb_table(folder / type, name);
    return find_ogb_table(folder / type, name);
  }

  void read_relations() {
    const fs::path path = require_ogb_table(raw_, "triplet-type-list");
    Rows triplets = read_fields(path, 3);
    std::ranges::sort(triplets);  // as OGB's package does
    for (const std::vector<std::string>& triplet : triplets) {
      check_names(triplet, path);
      const fs::path folder = raw_ / "relations" / fmt::format("{}", fmt::join(triplet, "___"));
      CsvExpectation rows{.rows = std::nullopt, .cols = 2, .rows_from = "num-edge-list"};
      if (find_ogb_table(folder, "num-edge-list")) rows.rows = read_ogb_count(folder, "num-edge-list", pool_);
      parts_.edges.push_back(
          edges_between({triplet[0], triplet[1], triplet[2]},
                        read_csv_edges(require_ogb_table(folder, "edge"), rows, pool_, assembly_.scratch)));
      if (const auto features = find_ogb_table(folder, "edge-feat"))
        spdlog::warn("{}: edge features are not read", features->string());
    }
  }

  std::optional<NodeLabels> read_labels(const std::string& type, Count count) const {
    if (const auto arrays = arrays_of("node-label.npz"); is_binary_ && arrays && arrays->contains(type)) {
      NodeLabels labels = labels_of(arrays->array(type, &pool_));
      if (labels.rows != count)
        throw InputError(fmt::format("{}: {} labels for the {} nodes of '{}'",
                                     (raw_ / "node-label.npz").string(), labels.rows, count, printable(type)),
                         "Write one label per node; nan stands for a missing one.");
      return labels;
    }
    const auto path = find_ogb_table(raw_ / "node-label" / type, "node-label");
    if (!path) return std::nullopt;
    return read_csv_labels(*path, {.rows = count, .cols = std::nullopt, .rows_from = "num-node-dict"}, pool_,
                           nullptr);
  }

  void read_target(std::size_t target, Graph& graph) {
    const std::string& type = graph.types.nodes[target];
    Graph nodes = nodes_of(graph, target);
    if (std::optional<NodeLabels> labels = read_labels(type, nodes.num_nodes())) {
      nodes.labels = std::move(labels->values);
      nodes.multi_label = labels->set_of > 0;
      nodes.num_classes = labels->set_of;
    }
    if (const auto folder = ogb_split_folder(source_.place, source_.choice)) {
      const std::optional<ValuesOfTypes> has = flags(*folder, "nodetype-has-split");
      if (fs::exists(*folder / type) || (has && has->is_true(type)))
        nodes.splits = read_ogb_splits(*folder / type, pool_);
    }
    put_nodes(std::move(nodes), target, graph);
  }

  const DatasetSource& source_;
  fs::path raw_;
  bool is_binary_;
  const ReadOptions& options_;
  ThreadPool& pool_;
  Assembly& assembly_;
  TypedParts parts_;
};

}  // namespace

Graph read_typed_ogb(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return TypedOgbReader(source, options, assembly).read();
}

}  // namespace strata::graph
