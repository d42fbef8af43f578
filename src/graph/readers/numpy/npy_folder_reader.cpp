// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"
#include "readers/node_files.hpp"
#include "readers/numpy/number_types.hpp"
#include "readers/numpy/sparse_matrix.hpp"
#include "readers/text/edge_buffer.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kKnownFiles{"edge_index.npy",  "indptr.npy",    "indices.npy", "adjacency.npz",
                                           "edge_weight.npy", "num_nodes.npy", "x.npy",       "y.npy",
                                           "node_weight.npy", "train.npy",     "valid.npy",   "val.npy",
                                           "test.npy"};

/// Other names that people give to these arrays, too different in their letters to be typing errors.
const std::map<std::string, std::string> kOtherNames{{"features", "x"},
                                                     {"feat", "x"},
                                                     {"node_feat", "x"},
                                                     {"labels", "y"},
                                                     {"label", "y"},
                                                     {"node_label", "y"},
                                                     {"train_mask", "train"},
                                                     {"train_idx", "train"},
                                                     {"val_mask", "valid"},
                                                     {"valid_mask", "valid"},
                                                     {"val_idx", "valid"},
                                                     {"valid_idx", "valid"},
                                                     {"test_mask", "test"},
                                                     {"test_idx", "test"},
                                                     {"edges", "edge_index"},
                                                     {"edge_list", "edge_index"},
                                                     {"weight", "edge_weight"},
                                                     {"weights", "edge_weight"},
                                                     {"edge_weights", "edge_weight"},
                                                     {"node_weights", "node_weight"},
                                                     {"vwgt", "node_weight"}};

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
    check_names();
    read_edges();
    read_nodes();
    return std::move(graph_);
  }

 private:
  bool has(const char* name) const { return fs::exists(folder_ / name); }

  /// Refuses a file whose name is nearly one that is read and missing; warns of other arrays.
  void check_names() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      const std::string ending = entry.path().extension().string();
      if ((ending != ".npy" && ending != ".npz") || std::ranges::find(kKnownFiles, name) != kKnownFiles.end())
        continue;
      const auto other = kOtherNames.find(entry.path().stem().string());
      const std::string meant =
          other != kOtherNames.end() ? other->second + ".npy" : closest(name, kKnownFiles);
      if (!meant.empty() && !fs::exists(folder_ / meant))
        throw InputError(
            fmt::format("{}: no array of this name is read", (folder_ / printable(name)).string()),
            fmt::format("Did you mean '{}'? Known are: {}.", meant, fmt::join(kKnownFiles, ", ")));
      spdlog::warn("{}: not read; known names are {}", (folder_ / printable(name)).string(),
                   fmt::join(kKnownFiles, ", "));
    }
  }

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

  /// An array of shape (E, 2) is PyG's edge_index transposed; that of two edges fits both.
  static void refuse_pairs(const NpyArray& array) {
    if (array.shape.size() == 2 && array.shape[0] != 2 && array.shape[1] == 2)
      throw InputError(fmt::format("{}: edges of shape {}", array.origin, array.shape_text()),
                       "Edges have the shape (2, E), sources first: write numpy.ascontiguousarray(edges.T).");
  }

  void take_edges(SparseEdges edges) { build(edges.list, edges.num_nodes); }

  /// The number of nodes that the files state: all of them must agree.
  Count count_nodes(const EdgeList& edges, std::optional<Count> of_edges) const {
    std::optional<Count> nodes = source_.nodes;
    if (!source_.nodes_from.empty())
      nodes = agree_on_nodes(source_, largest_id(edges, assembly_.scratch), folder_.string());
    std::string stated_by = source_.nodes_from.empty() ? "nodes=" : source_.nodes_from;
    const auto take = [&](std::optional<Count> stated, const std::string& by) {
      if (!stated) return;
      if (nodes && *nodes != *stated)
        throw InputError(
            fmt::format("{}: {} says {} nodes, {} says {}", folder_.string(), stated_by, *nodes, by, *stated),
            "Write one row per node in each file.");
      nodes = stated;
      stated_by = by;
    };
    take(of_edges, "the edges' file");
    if (has("num_nodes.npy")) take(stated_number(), "num_nodes.npy");
    for (const char* const name : {"x.npy", "y.npy", "node_weight.npy"})
      if (has(name)) take(rows_of(folder_ / name), name);
    return nodes ? *nodes : num_nodes_for(largest_id(edges, assembly_.scratch), edges.origin);
  }

  static std::optional<Count> rows_of(const fs::path& path) {
    const NpyArray array = read_npy(path);
    return array.shape.empty() ? std::nullopt : std::optional(array.shape[0]);
  }

  Count stated_number() const {
    NpyArray array = read_npy(folder_ / "num_nodes.npy");
    if (array.shape.empty()) array.shape = {1};
    const std::vector<NodeId> numbers = ids_of(array);
    if (numbers.size() != 1 || numbers[0] < 0)
      throw InputError(fmt::format("{}: not one number of nodes", array.origin), "Write numpy.array(N).");
    return numbers[0];
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
    if (has("y.npy")) read_labels_file(graph_, folder_ / "y.npy", pool_, assembly_.scratch);
    if (has("node_weight.npy"))
      graph_.node_weights = node_weights_of(read_npy(folder_ / "node_weight.npy"), graph_.num_nodes());
    if (has("valid.npy") && has("val.npy"))
      throw InputError(fmt::format("{}: both valid.npy and val.npy", folder_.string()),
                       "Remove one of them.");
    graph_.splits = {.train = read_split("train.npy"),
                     .valid = read_split(has("val.npy") ? "val.npy" : "valid.npy"),
                     .test = read_split("test.npy")};
  }

  std::vector<NodeId> read_split(const char* name) const {
    if (!has(name)) return {};
    return read_split_file(graph_, folder_ / name, pool_);
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
