// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"
#include "readers/node_files.hpp"
#include "readers/numpy/node_arrays.hpp"
#include "readers/numpy/sparse_matrix.hpp"
#include "readers/text/edge_buffer.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kKnownFiles{
    "edge_index.npy", "indptr.npy", "indices.npy", "adjacency.npz", "edge_weight.npy",
    "num_nodes.npy",  "x.npy",      "y.npy",       "targets.npy",   "node_weight.npy",
    "train.npy",      "valid.npy",  "val.npy",     "test.npy"};

class NpyFolderReader {
 public:
  NpyFolderReader(const DatasetSource& source, const ReadOptions& options, Assembly& assembly)
      : source_(source), folder_(source.place), options_(options), pool_(assembly.pool), assembly_(assembly) {
    graph_.name = fs::weakly_canonical(folder_).filename().string();
  }

  Graph read() {
    std::error_code code;
    if (fs::is_regular_file(folder_, code)) {
      if (folder_.extension() != ".npz")
        throw InputError(fmt::format("{}: not a folder", folder_.string()),
                         "Give the folder that holds edge_index.npy, or a sparse matrix that "
                         "scipy.sparse.save_npz wrote (.npz).");
      take_edges(sparse_edges(folder_, assembly_));
      return std::move(graph_);
    }
    if (!fs::is_directory(folder_, code))
      throw InputError(fmt::format("{}: no such directory", folder_.string()), "Check the path.");
    check_array_names(folder_, kKnownFiles);
    read_edges();
    read_nodes();
    return std::move(graph_);
  }

 private:
  bool has(const char* name) const { return fs::exists(folder_ / name); }

  void read_edges() {
    const bool pairs = has("edge_index.npy"), lists = has("indptr.npy") || has("indices.npy"),
               matrix = has("adjacency.npz");
    if (pairs + lists + matrix != 1)
      throw InputError(
          fmt::format("{}: {}", folder_.string(),
                      pairs + lists + matrix == 0 ? "no edges" : "edges in more than one file"),
          "Write edge_index.npy of shape (2, E), or indptr.npy with indices.npy, or adjacency.npz "
          "(scipy.sparse.save_npz): one of them.");
    if (pairs) {
      const NpyArray array = read_npy(folder_ / "edge_index.npy");
      refuse_pairs(array);
      EdgeArray edges = edges_of(array, assembly_.scratch);
      build(edges.list, std::nullopt);
    } else if (lists) {
      take_edges(list_edges(folder_ / "indptr.npy", folder_ / "indices.npy", assembly_.scratch));
    } else {
      take_edges(sparse_edges(folder_ / "adjacency.npz", assembly_));
    }
  }

  void take_edges(SparseEdges edges) { build(edges.list, edges.num_nodes); }

  /// The number of nodes that the files state: all of them must agree.
  Count count_nodes(const EdgeList& edges, std::optional<Count> of_edges) const {
    StatedNodes stated{.folder = folder_, .nodes = source_.nodes, .by = "nodes="};
    if (!source_.nodes_from.empty()) {
      stated.nodes = agree_on_nodes(source_, largest_id(edges, assembly_.scratch), folder_.string());
      stated.by = source_.nodes_from;
    }
    stated.take(of_edges, "the edges' file");
    stated.take_arrays();
    return stated.nodes ? *stated.nodes : num_nodes_for(largest_id(edges, assembly_.scratch), edges.origin);
  }

  void build(EdgeList& edges, std::optional<Count> nodes) {
    std::optional<EdgeWeights> weights;
    if (fs::is_directory(folder_) && has("edge_weight.npy")) weights.emplace(read_weights(edges));
    build_structure(graph_, count_nodes(edges, nodes), edges, options_,
                    options_.direction == ReadOptions::Direction::undirected, assembly_);
  }

  EdgeWeights read_weights(EdgeList& edges) const {
    const fs::path path = folder_ / "edge_weight.npy";
    if (edges.weights != nullptr)
      throw InputError(fmt::format("{}: the matrix has weights, too", path.string()), "Remove one of them.");
    EdgeWeights weights = edge_weights_of(read_npy(path), assembly_.scratch);
    weights.give_to(edges, path.string());
    return weights;
  }

  void read_nodes() {
    if (has("x.npy"))
      graph_.features = read_features_file(graph_, folder_ / "x.npy", pool_, assembly_.scratch);
    if (has("node_weight.npy"))
      graph_.node_weights = node_weights_of(read_npy(folder_ / "node_weight.npy"), graph_.num_nodes());
    read_labels_and_splits(graph_, folder_, pool_, assembly_.scratch);
  }

  const DatasetSource& source_;
  fs::path folder_;
  const ReadOptions& options_;
  ThreadPool& pool_;
  Assembly& assembly_;
  Graph graph_;
};

}  // namespace

Graph read_npy_folder(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  return NpyFolderReader(source, options, assembly).read();
}

}  // namespace strata::graph
