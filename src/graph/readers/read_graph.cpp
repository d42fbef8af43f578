// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/read_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/igbh.hpp"
#include "generators/synthetic_kinds.hpp"
#include "parts/whole_graph.hpp"
#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/node_files.hpp"
#include "readers/ogb_tables.hpp"
#include "readers/parquet/parquet_parts.hpp"
#include "readers/text/typed_tables.hpp"
#include "readers/typed_graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

/// Refuses a directory that is no partition directory; it may be a dataset without its prefix.
void check_parts(const Source& source, const PartsOrigin& parts) {
  const auto* const directory = std::get_if<fs::path>(&parts);
  std::error_code ignored;
  if (directory == nullptr || fs::exists(*directory / kManifestFile, ignored)) return;
  const std::string hint = dataset_hint(*directory);
  throw InputError(fmt::format("'{}' does not say what kind of graph it is", source.text()),
                   hint.empty() ? fmt::format("Write one of: {}.", fmt::join(dataset_forms(), ", "))
                                : fmt::format("Did you mean {}?", hint));
}

/// Refuses a folder that does not exist, with the name beside it that is nearest. Files are refused when they
/// are opened.
void check_place(const DatasetSource& source) {
  using Format = DatasetSource::Format;
  std::error_code code;
  const bool folder = source.format == Format::ogb || source.format == Format::graphbolt ||
                      source.format == Format::npy || source.format == Format::igb ||
                      source.format == Format::igbh || source.format == Format::triples ||
                      source.format == Format::dgl_chunked || source.format == Format::parquet;
  const std::string file = source.place.filename().string();
  if (folder && (file == "metadata.yaml" || file == "metadata.json"))
    throw InputError(fmt::format("{}: a file, not a folder", source.place.string()),
                     fmt::format("Give its folder: {}.", folder_of(source.place).string()));
  if (!folder || fs::exists(source.place, code)) return;
  std::vector<std::string> siblings;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(source.place), code))
    siblings.push_back(entry.path().filename().string());
  const std::string near = closest(source.place.filename().string(), siblings);
  throw InputError(fmt::format("{}: no such directory", source.place.string()),
                   near.empty() ? "Check the path." : fmt::format("Did you mean {}?", printable(near)));
}

/// Whether a folder has its nodes and edges by type.
bool has_types(const fs::path& folder) {
  std::error_code code;
  return fs::is_directory(folder / "nodes", code) || fs::is_directory(folder / "edges", code);
}

Graph read_dataset(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  check_place(source);
  switch (source.format) {
    case DatasetSource::Format::ogb:
      return has_ogb_types(source.place) ? read_typed_ogb(source, options, assembly)
                                         : read_ogb(source, options, assembly);
    case DatasetSource::Format::graphbolt:
      return read_graphbolt(source, options, assembly);
    case DatasetSource::Format::npy:
      return has_types(source.place) ? read_typed_npy(source, options, assembly)
                                     : read_npy_folder(source, options, assembly);
    case DatasetSource::Format::edge_list:
      return has_types(source.place) ? read_typed_tables(source, options, assembly)
                                     : read_edge_list(source, options, assembly);
    case DatasetSource::Format::metis:
      return read_metis(source, options, assembly);
    case DatasetSource::Format::igb:
      return read_igb(source, options, assembly);
    case DatasetSource::Format::dgl_chunked:
      return read_dgl_chunked(source, options, assembly);
    case DatasetSource::Format::parquet:
      return read_parquet(source, options, assembly);
    case DatasetSource::Format::matrix_market:
      return read_matrix_market(source, options, assembly);
    case DatasetSource::Format::n_triples:
      return read_n_triples(source, options, assembly);
    case DatasetSource::Format::triples:
      return read_triples(source, options, assembly);
    case DatasetSource::Format::igbh:
      return read_igbh(source, options, assembly);
    case DatasetSource::Format::synthetic_igbh:
      return generate_igbh(source, options, assembly);
  }
  throw Error("unknown format");
}

/// Refuses what has an effect in graphs of several types only.
void refuse_without_types(const DatasetSource& source, const Graph& graph) {
  if (graph.types.several() || (!source.reverse && source.target.empty())) return;
  throw InputError(fmt::format("{}: one type of nodes and one relation, for which {} has no effect",
                               source.place.string(), source.reverse ? "reverse" : "target="),
                   source.reverse ? "Give --direction undirected, which adds the opposite of each edge."
                                  : "Leave it out.");
}

/// Replaces the dataset's data by those of the files.
void replace_by_files(Graph& graph, const NodeFiles& files, Assembly& assembly) {
  ThreadPool& pool = assembly.pool;
  if (!files.features.empty())
    graph.features = read_features_file(graph, files.features, pool, assembly.scratch);
  if (!files.labels.empty()) read_labels_file(graph, files.labels, pool, assembly.scratch, files.label_kind);
  const auto replace = [&](std::vector<NodeId>& split, const fs::path& path) {
    if (!path.empty()) split = read_split_file(graph, path, pool);
  };
  replace(graph.splits.train, files.train);
  replace(graph.splits.valid, files.valid);
  replace(graph.splits.test, files.test);
}

/// Whether the dataset's own files have the number of nodes.
bool states_nodes(const DatasetSource& source) {
  using Format = DatasetSource::Format;
  if (source.nodes) return true;
  if (source.format == Format::edge_list)
    return source.ids != DatasetSource::Ids::number || has_types(source.place);
  if (source.format == Format::parquet && has_parquet_types(source.place)) return true;
  if (source.format == Format::parquet) return !table_files(source.place, source.tables.nodes).empty();
  if (source.format != Format::npy) return true;
  if (has_types(source.place)) return true;
  std::error_code ignored;
  for (const char* const name :
       {"x.npy", "y.npy", "targets.npy", "node_weight.npy", "num_nodes.npy", "indptr.npy", "adjacency.npz"})
    if (fs::exists(source.place / name, ignored)) return true;
  return !fs::is_directory(source.place, ignored);
}

/// Sets the number of nodes from files with one row per node, for datasets that do not have it.
DatasetSource with_nodes_of(const NodeFiles& files, DatasetSource source, ThreadPool& pool) {
  if (states_nodes(source)) return source;
  for (const fs::path& path : {files.features, files.labels}) {
    if (path.empty() || source.nodes) continue;
    const std::optional<NodesOfFile> stated = nodes_of_file(path, pool);
    if (!stated) continue;
    source.nodes = stated->nodes;
    source.nodes_from = path.string();
    source.spare_nodes = stated->spare;
  }
  return source;
}

/// Replaces and checks labels and splits of a graph of several types: files are about the nodes of one of them.
void finish_targets(Graph& graph, const std::string& origin, const NodeFiles& files, Assembly& assembly) {
  if (files.any() && assembly.targets.size() != 1)
    throw InputError(fmt::format("{}: files about nodes of a graph of several types", origin),
                     "Name the type of these nodes behind the input: ,target=TYPE.");
  const bool several = graph.types.nodes.size() > 1;
  if (several && !files.features.empty())
    throw InputError(fmt::format("{}: features of one of several types", files.features.string()),
                     "Features of graphs of several types belong to the input.");
  if (assembly.targets.empty()) return finish_graph(graph, origin, {}, assembly.pool);
  const Count stated_classes = graph.num_classes;
  for (const std::size_t target : assembly.targets) {
    Graph nodes = nodes_of(graph, target);
    nodes.num_classes = stated_classes;
    replace_by_files(nodes, files, assembly);
    const std::string name = several ? ": " + printable(graph.types.nodes[target]) : "";
    finish_graph(nodes, origin + name, {}, assembly.pool);
    put_nodes(std::move(nodes), target, graph);
  }
}

void finish_types(Graph& graph, const std::string& origin, const ReadOptions& options, const NodeFiles& files,
                  Assembly& assembly) {
  finish_targets(graph, origin, files, assembly);
  if (options.normalize_features && graph.features.cols > 0)
    graph.features = normalized(graph.features, assembly.pool, assembly.scratch);
}

Graph read(const Source& source, const ReadOptions& options, const NodeFiles& files, Assembly& assembly) {
  Graph graph;
  std::string origin = source.text();
  if (const auto parts = source.parts()) {
    check_parts(source, *parts);
    graph = read_whole_graph(*parts, assembly);
  } else if (const SyntheticSpec* spec = source.synthetic()) {
    graph = generate(*spec, options, assembly);
    if (!files.any()) return graph;
  } else {
    const DatasetSource& dataset = *source.dataset();
    graph = read_dataset(with_nodes_of(files, dataset, assembly.pool), options, assembly);
    refuse_without_types(dataset, graph);
    const bool described = dataset.format == DatasetSource::Format::graphbolt;
    origin = (described ? dataset.place / "metadata.yaml" : dataset.place).string();
  }
  if (graph.types.several()) {
    finish_types(graph, origin, options, files, assembly);
  } else {
    replace_by_files(graph, files, assembly);
    finish_graph(graph, origin, options, assembly.pool, assembly.scratch);
  }
  refuse_truncated_inputs();
  warn_of_probable_mistakes(graph, origin);
  return graph;
}

}  // namespace

Graph read_graph(const Source& source, const ReadOptions& options, const NodeFiles& files) {
  ThreadPool pool(options.num_threads);
  Assembly assembly{.pool = pool};
  return read(source, options, files, assembly);
}

StoredGraph read_stored_graph(const Source& source, const ReadOptions& options, const NodeFiles& files,
                              ScratchStore& scratch) {
  ThreadPool pool(options.num_threads);
  Assembly assembly{.pool = pool, .scratch = &scratch};
  StoredGraph result{.graph = read(source, options, files, assembly)};
  result.lists = std::move(assembly.lists);
  return result;
}

ListsView lists_of(const CscGraph& graph) {
  return {.num_nodes = graph.num_nodes,
          .indptr = graph.indptr,
          .indices = {graph.indices.data(), graph.num_edges(), true},
          .edge_ids = {graph.edge_ids.data(), std::ssize(graph.edge_ids), true},
          .weights = graph.weights};
}

ListsView lists_of(const StoredLists& lists, ScratchStore& scratch) {
  return {.num_nodes = lists.num_nodes(),
          .indptr = lists.indptr,
          .indices = lists.indices,
          .edge_ids = lists.edge_ids,
          .weights = lists.weights.span(),
          .scratch = &scratch};
}

}  // namespace strata::graph
