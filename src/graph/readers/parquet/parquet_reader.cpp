// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "readers/assemble.hpp"
#include "readers/parquet/parquet_parts.hpp"
#include "readers/typed_graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

std::string name_of_folder(const DatasetSource& source) {
  return fs::weakly_canonical(source.place).filename().string();
}

/// A table of edges, and perhaps one of nodes.
class ParquetReader {
 public:
  ParquetReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source), options_(options), assembly_(assembly) {}

  Graph read() {
    open_tables();
    graph_.name = name_of_folder(source_);
    if (nodes_) graph_.node_names = nodes_->names();
    read_edges();
    if (!nodes_) return std::move(graph_);
    graph_.features = nodes_->read_features();
    nodes_->read_target(graph_);
    return std::move(graph_);
  }

 private:
  void open_tables() {
    const TableNames& names = source_.tables;
    std::vector<fs::path> edges = table_files(source_.place, names.edges);
    if (edges.empty())
      throw InputError(fmt::format("{0}: neither {1}.parquet nor {1}-*.parquet nor {1}/*.parquet in it",
                                   source_.place.string(), names.edges),
                       "Give the folder that holds the table of edges; edge-table= sets its name.");
    edges_.emplace(std::move(edges), names, assembly_);
    std::vector<fs::path> nodes = table_files(source_.place, names.nodes);
    if (nodes.empty()) return refuse_names_without_nodes();
    nodes_.emplace(std::move(nodes), names, assembly_);
    const ParquetTable& table = nodes_->table();
    if (source_.nodes && *source_.nodes != table.rows())
      throw InputError(fmt::format("{}: {} rows, but nodes={}", table.origin(), table.rows(), *source_.nodes),
                       "Leave nodes= out: the table has a row per node.");
  }

  void refuse_names_without_nodes() const {
    const TableNames& names = source_.tables;
    if (names.id.empty() && names.label.empty() && names.split.empty() && names.features.empty()) return;
    throw InputError(
        fmt::format("{}: no table '{}', but columns of it are named", source_.place.string(), names.nodes),
        "node-table= sets its name.");
  }

  void read_edges() {
    const ParquetNodes* const nodes = nodes_ ? &*nodes_ : nullptr;
    ParquetEdges::Read edges = edges_->read({nodes, nodes});
    if (nodes_) nodes_->forget_ids();
    const Count count = nodes_ ? nodes_->table().rows()
                               : edges.pairs.count_nodes(
                                     source_,
                                     "Write a table of nodes with a column id, or say nodes=N if all these "
                                     "nodes exist.");
    EdgeList list = edges.pairs.list();
    if (edges.weights) edges.weights->give_to(list, edges_->origin());
    build_structure(graph_, count, list, options_, options_.direction == ReadOptions::Direction::undirected,
                    assembly_);
  }

  const DatasetSource& source_;
  const ReadOptions& options_;
  Assembly& assembly_;
  std::optional<ParquetEdges> edges_;
  std::optional<ParquetNodes> nodes_;
  Graph graph_;
};

/// A table per type of nodes and per relation, whose columns have their usual names.
class TypedParquetReader {
 public:
  TypedParquetReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source), options_(options), assembly_(assembly) {}

  Graph read() {
    refuse_keys();
    parts_.name = name_of_folder(source_);
    std::vector<std::size_t> labelled;
    for (const std::string& type : typed_parquet_tables(source_.place / "nodes")) {
      read_nodes(type);
      const NodeRoles& roles = tables_.back()->roles();
      if (roles.label >= 0 || roles.split >= 0) labelled.push_back(tables_.size() - 1);
    }
    assembly_.targets = choose_targets(parts_.nodes, labelled, source_.tables.target, source_.place.string());
    for (const std::string& relation : typed_parquet_tables(source_.place / "edges")) read_relation(relation);
    if (source_.reverse) add_reverses(parts_);
    Graph graph = join_types(std::move(parts_), options_, assembly_);
    for (const std::size_t target : assembly_.targets) {
      Graph nodes = nodes_of(graph, target);
      tables_[target]->read_target(nodes);
      put_nodes(std::move(nodes), target, graph);
    }
    return graph;
  }

 private:
  void refuse_keys() const {
    TableNames names = source_.tables;
    names.target.clear();
    if (names == TableNames{} && (!source_.nodes || !source_.nodes_from.empty())) return;
    throw InputError(fmt::format("{}: a table per type, but a key of one table", source_.place.string()),
                     "Only target=TYPE and reverse may stand behind it; columns have their usual names.");
  }

  void read_nodes(const std::string& type) {
    const ParquetNodes& table = *tables_.emplace_back(
        std::make_unique<ParquetNodes>(table_files(source_.place / "nodes", type), TableNames{}, assembly_));
    parts_.nodes.push_back({.type = type,
                            .count = table.table().rows(),
                            .features = table.read_features(),
                            .names = table.names()});
  }

  const ParquetNodes* nodes_called(const std::string& type, const std::string& relation) const {
    for (std::size_t t = 0; t < tables_.size(); ++t)
      if (parts_.nodes[t].type == type) return tables_[t].get();
    throw InputError(fmt::format("{}: the relation '{}' is of the type '{}', which has no table",
                                 source_.place.string(), printable(relation), printable(type)),
                     fmt::format("Write nodes/{}.parquet.", printable(type)));
  }

  void read_relation(const std::string& name) {
    EdgeType type = parse_relation(name, "__", source_.place.string());
    const ParquetEdges table(table_files(source_.place / "edges", name), {}, assembly_);
    ParquetEdges::Read read =
        table.read({nodes_called(type.source, name), nodes_called(type.destination, name)});
    TypedParts::Edges edges = edges_between(std::move(type), std::move(read.pairs));
    if (read.weights) give_weights(edges, std::move(*read.weights), table.origin());
    parts_.edges.push_back(std::move(edges));
  }

  const DatasetSource& source_;
  const ReadOptions& options_;
  Assembly& assembly_;
  TypedParts parts_;
  std::vector<std::unique_ptr<ParquetNodes>> tables_;
};

}  // namespace

Graph read_parquet(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return has_parquet_types(source.place) ? TypedParquetReader(source, options, assembly).read()
                                         : ParquetReader(source, options, assembly).read();
}

}  // namespace strata::graph
