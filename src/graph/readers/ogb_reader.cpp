// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/csv.hpp"
#include "readers/edge_weights.hpp"
#include "readers/ogb_tables.hpp"
#include "readers/text/edge_buffer.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

/// The datasets whose edges have a direction. OGB keeps `add_inverse_edge` in its Python package, not in the
/// folder.
constexpr std::array kDirectedSets = {"ogbn_arxiv",     "arxiv",          "ogbn_papers100M",
                                      "papers100M-bin", "ogbl_citation2", "citation-v2"};
constexpr std::array kUndirectedSets = {"ogbn_products", "products",    "ogbn_proteins", "proteins",
                                        "ogbl_ppa",      "ppassoc",     "ogbl_collab",   "collab",
                                        "ogbl_ddi",      "drugbank-ddi"};

bool is_among(const auto& sets, const std::string& name) {
  return std::ranges::find(sets, name) != sets.end();
}

class OgbReader {
 public:
  OgbReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : folder_(source.place),
        raw_(folder_ / "raw"),
        split_(source.choice),
        weight_column_(source.weight_column),
        options_(options),
        pool_(assembly.pool),
        assembly_(assembly) {
    graph_.name = fs::weakly_canonical(folder_).filename().string();
  }

  Graph read() {
    if (!fs::is_directory(raw_))
      throw InputError(fmt::format("{}: no folder 'raw' in it", folder_.string()),
                       "Give the folder of an OGB set, as ogb:dataset/ogbn_arxiv.");
    if (fs::exists(raw_ / "data.npz"))
      read_binary();
    else
      read_text();
    read_splits();
    return std::move(graph_);
  }

 private:
  void read_text() {
    const Count nodes = read_ogb_count(raw_, "num-node-list", pool_);
    read_text_edges(nodes);
    const CsvExpectation node_rows{.rows = nodes, .cols = std::nullopt, .rows_from = "num-node-list"};
    if (const auto path = find_ogb_table(raw_, "node-feat"))
      graph_.features = read_csv_features(*path, node_rows, pool_, assembly_.scratch);
    if (const auto path = find_ogb_table(raw_, "node-label"))
      take_labels(read_csv_labels(*path, node_rows, pool_, assembly_.scratch));
  }

  static void warn_of_edge_features(const fs::path& path) {
    spdlog::warn("{}: edge features are not read; ogb:DIR,weight=COLUMN takes one of them as edge weights",
                 path.string());
  }

  void read_text_edges(Count nodes) {
    CsvExpectation edge_rows{.rows = std::nullopt, .cols = 2, .rows_from = "num-edge-list"};
    if (find_ogb_table(raw_, "num-edge-list")) edge_rows.rows = read_ogb_count(raw_, "num-edge-list", pool_);
    EdgeBuffer buffer = read_csv_edges(require_ogb_table(raw_, "edge"), edge_rows, pool_, assembly_.scratch);
    EdgeList edges = buffer.list();
    const std::optional<EdgeWeights> weights = read_text_weights(edges);
    build(nodes, edges);
  }

  /// The owner of the weights that the edges then have.
  std::optional<EdgeWeights> read_text_weights(EdgeList& edges) {
    if (!weight_column_) {
      if (const auto path = find_ogb_table(raw_, "edge-feat")) warn_of_edge_features(*path);
      return {};
    }
    const fs::path path = require_ogb_table(raw_, "edge-feat");
    EdgeWeights weights = read_csv_weights(
        path, *weight_column_, {.rows = edges.count, .cols = std::nullopt, .rows_from = "the list of edges"},
        pool_, assembly_.scratch);
    weights.give_to(edges, path.string());
    return weights;
  }

  std::optional<EdgeWeights> read_binary_weights(const NpzFile& data, EdgeList& edges) {
    if (!weight_column_) {
      if (data.contains("edge_feat")) warn_of_edge_features(raw_ / "data.npz");
      return {};
    }
    const NpyArray array = data.array("edge_feat", &pool_, assembly_.scratch);
    EdgeWeights weights = edge_weights_of(array, *weight_column_, assembly_.scratch);
    if (weights.size() != edges.count)
      throw InputError(fmt::format("{}: {} rows for {} edges", array.origin, weights.size(), edges.count),
                       "Write one row per edge, in the order of the edges.");
    weights.give_to(edges, array.origin);
    return weights;
  }

  void read_binary() {
    const NpzFile data(raw_ / "data.npz");
    const Count nodes = count_in(data);
    {
      EdgeArray edges = edges_of(data.array("edge_index", &pool_, assembly_.scratch), assembly_.scratch);
      const std::optional<EdgeWeights> weights = read_binary_weights(data, edges.list);
      build(nodes, edges.list);
    }
    if (data.contains("node_feat"))
      graph_.features =
          features_of(data.array("node_feat", &pool_, assembly_.scratch), nodes, pool_, assembly_.scratch);
    if (!fs::exists(raw_ / "node-label.npz")) return;
    const NpzFile labels(raw_ / "node-label.npz");
    NodeLabels of_nodes = labels_of(labels.array("node_label", &pool_));
    if (of_nodes.rows != nodes)
      throw InputError(
          fmt::format("{}: {} labels for {} nodes", (raw_ / "node-label.npz").string(), of_nodes.rows, nodes),
          "Write one label per node; nan stands for a missing one.");
    take_labels(std::move(of_nodes));
  }

  void take_labels(NodeLabels labels) {
    graph_.labels = std::move(labels.values);
    graph_.multi_label = labels.set_of > 0;
    if (graph_.multi_label) graph_.num_classes = labels.set_of;
  }

  static Count count_in(const NpzFile& data) {
    NpyArray array = data.array(data.contains("num_nodes_list") ? "num_nodes_list" : "num_nodes");
    if (array.shape.empty()) array.shape = {1};
    const std::vector<NodeId> counts = ids_of(array);
    if (counts.size() != 1 || counts[0] < 0)
      throw InputError(fmt::format("{}: not the number of nodes of one graph", array.origin),
                       "Only sets of one graph are supported.");
    return counts[0];
  }

  /// Whether `automatic` means directed: for the known directed datasets. Every other is undirected and lists
  /// each edge once or in both directions.
  bool is_directed() const {
    using Direction = ReadOptions::Direction;
    if (options_.direction != Direction::automatic) return options_.direction == Direction::directed;
    if (is_among(kDirectedSets, graph_.name)) return true;
    if (!is_among(kUndirectedSets, graph_.name))
      spdlog::warn(
          "{}: '{}' is not a set whose direction is known: its edges are taken as undirected, each in both "
          "directions. If they have a direction, give --direction directed; if not, --direction undirected "
          "says so.",
          folder_.string(), graph_.name);
    return false;
  }

  void build(Count nodes, const EdgeList& edges) {
    const bool directed = is_directed();
    build_structure(graph_, nodes, edges, options_, !directed, assembly_);
  }

  void read_splits() {
    const std::optional<fs::path> folder = ogb_split_folder(folder_, split_);
    if (folder) graph_.splits = read_ogb_splits(*folder, pool_);
  }

  fs::path folder_, raw_;
  std::string split_;
  std::optional<Count> weight_column_;
  ReadOptions options_;
  ThreadPool& pool_;
  Assembly& assembly_;
  Graph graph_;
};

}  // namespace

Graph read_ogb(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return OgbReader(source, options, assembly).read();
}

}  // namespace strata::graph
