// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/numpy/mapped_file.hpp"
#include "readers/typed_graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

constexpr Count kFeatureCols = 1024;
constexpr double kTrainShare = 0.6, kValidShare = 0.2;

/// An array of float32 with `cols` columns. The largest sets of IGB have no header of NumPy, whatever their
/// names end with. `cols` is 0 for a vector.
NpyArray read_floats(const fs::path& path, Count cols) {
  if (is_npy(path)) return read_npy(path);
  refuse_compressed(path);
  const auto file = std::make_shared<const MappedFile>(path);
  const std::size_t row_bytes = 4 * at(std::max<Count>(cols, 1));
  if (file->size() == 0 || file->size() % row_bytes != 0)
    throw InputError(fmt::format("{}: {} bytes are no rows of {} float32", path.string(), file->size(),
                                 std::max<Count>(cols, 1)),
                     "Copy or download the file again.");
  const auto rows = static_cast<Count>(file->size() / row_bytes);
  return {.origin = path.string(),
          .kind = 'f',
          .item_bytes = 4,
          .shape = cols == 0 ? std::vector<Count>{rows} : std::vector<Count>{rows, cols},
          .data = file->data(),
          .keep_alive = file};
}

/// The folder with the arrays: DIR/processed, or DIR itself.
fs::path processed_folder(const fs::path& place) {
  for (const fs::path& folder : {place / "processed", place})
    if (fs::is_directory(folder / "paper")) return folder;
  throw InputError(fmt::format("{}: no folder 'processed/paper' in it", place.string()),
                   "Give the folder of one size of IGB, as igb:igb_homogeneous/tiny.");
}

/// The arrays of a set, none of which is read yet.
struct IgbArrays {
  NpyArray features, edges, labels;
};

void refuse_missing_files(const std::vector<fs::path>& files) {
  std::vector<std::string> missing;
  for (const fs::path& file : files)
    if (!fs::exists(file)) missing.push_back(file.string());
  if (missing.empty()) return;
  throw InputError(fmt::format("{}: no such file", fmt::join(missing, ", ")),
                   "Copy or download the set again. classes=19 reads node_label_19.npy, classes=2983 reads "
                   "node_label_2K.npy.");
}

/// Refuses an array of another type or shape than IGB's package makes.
void require_form(const NpyArray& array, const char* kinds, bool has_form, const char* form) {
  if (has_form && std::string_view(kinds).find(array.kind) != std::string_view::npos) return;
  throw InputError(fmt::format("{}: of type '{}' and shape {}, not {}", array.origin, array.type_name(),
                               array.shape_text(), form),
                   "Copy or download the file again, or write it so.");
}

NpyArray open_features(const fs::path& path) {
  NpyArray array = read_floats(path, kFeatureCols);
  require_form(array, "f", array.shape.size() == 2 && array.shape[1] > 0,
               "floats of shape (N, columns): a row of features per node");
  return array;
}

NpyArray open_edges(const fs::path& path) {
  NpyArray array = read_npy(path);
  const std::vector<Count>& pairs = array.shape;
  require_form(array, "iu", pairs.size() == 2 && (pairs[0] == 2 || pairs[1] == 2),
               "integers of shape (E, 2): a source and a destination per edge");
  return array;
}

fs::path label_file(const fs::path& papers, const DatasetSource& source) {
  return papers / (source.classes == 19 ? "node_label_19.npy" : "node_label_2K.npy");
}

NpyArray open_labels(const fs::path& path, const NpyArray& features) {
  NpyArray array = read_floats(path, 0);
  const std::vector<Count>& classes = array.shape;
  require_form(array, "fiu", classes.size() == 1 || (classes.size() == 2 && classes[1] == 1),
               "numbers of shape (N,): a class per node");
  // The full set, whose labels have no header, has those of its first nodes.
  const Count rows = features.shape[0];
  if (classes[0] > rows || (is_npy(path) && classes[0] != rows))
    throw InputError(fmt::format("{}: {} labels for {} nodes, of which {} has the features", array.origin,
                                 classes[0], rows, features.origin),
                     "Copy or download the files again.");
  return array;
}

/// Opens the arrays and refuses what does not fit before any of them is read.
IgbArrays open_arrays(const DatasetSource& source) {
  const fs::path folder = processed_folder(source.place), paper = folder / "paper";
  const fs::path features = paper / "node_feat.npy",
                 edges = folder / "paper__cites__paper" / "edge_index.npy",
                 labels = label_file(paper, source);
  refuse_missing_files({features, edges, labels});
  IgbArrays arrays{.features = open_features(features), .edges = open_edges(edges), .labels = {}};
  arrays.labels = open_labels(labels, arrays.features);
  return arrays;
}

/// IGB has no files of splits: its package takes the first 60 % of the labelled nodes for training, and half
/// of the rest for validation.
Splits splits_of(const std::vector<std::int32_t>& labels) {
  std::vector<NodeId> labelled;
  for (std::size_t v = 0; v < labels.size(); ++v)
    if (labels[v] >= 0) labelled.push_back(static_cast<NodeId>(v));
  const auto share = [&](double of_all) {
    return static_cast<std::ptrdiff_t>(of_all * static_cast<double>(labelled.size()));
  };
  const auto train_end = labelled.begin() + share(kTrainShare), valid_end = train_end + share(kValidShare);
  return {.train = {labelled.begin(), train_end},
          .valid = {train_end, valid_end},
          .test = {valid_end, labelled.end()}};
}

void take_labels(const NpyArray& labels, Count classes, Graph& graph) {
  graph.labels = labels_of(labels).values;
  if (std::ssize(graph.labels) < graph.num_nodes())
    spdlog::info("{}: labels of the first {} of {} nodes", labels.origin, graph.labels.size(),
                 graph.num_nodes());
  graph.labels.resize(at(graph.num_nodes()), -1);
  graph.num_classes = classes;
  graph.splits = splits_of(graph.labels);
}

std::vector<fs::path> folders_of_set(const fs::path& folder) {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) folders.push_back(entry.path());
  std::ranges::sort(folders);
  return folders;
}

}  // namespace

Graph read_igb(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  IgbArrays arrays = open_arrays(source);
  const Count nodes = arrays.features.shape[0];
  Graph graph;
  graph.name = "igb-" + fs::weakly_canonical(source.place).filename().string();
  {
    const EdgeArray edges = edges_of(arrays.edges, assembly.scratch);
    build_structure(graph, nodes, edges.list, options,
                    options.direction == ReadOptions::Direction::undirected, assembly);
  }
  graph.features = features_of(arrays.features, nodes, assembly.pool, assembly.scratch);
  take_labels(arrays.labels, source.classes, graph);
  return graph;
}

Graph read_igbh(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  const fs::path folder = processed_folder(source.place);
  TypedParts parts{
      .name = "igbh-" + fs::weakly_canonical(source.place).filename().string(), .nodes = {}, .edges = {}};
  std::vector<NpyArray> features;
  for (const fs::path& place : folders_of_set(folder)) {
    const std::string name = place.filename().string();
    const bool relation = name.find("__") != name.npos;
    const fs::path file = place / (relation ? "edge_index.npy" : "node_feat.npy");
    refuse_missing_files({file});
    if (relation) {
      parts.edges.push_back(edges_between(parse_relation(name, "__", place.string()), open_edges(file)));
      continue;
    }
    features.push_back(open_features(file));
    if (name == "paper") assembly.targets = {parts.nodes.size()};
    parts.nodes.push_back({.type = name, .count = features.back().shape[0]});
  }
  const fs::path label_path = label_file(folder / "paper", source);
  refuse_missing_files({label_path});
  const NpyArray labels = open_labels(label_path, features.at(assembly.targets.front()));
  for (std::size_t t = 0; t < features.size(); ++t)
    parts.nodes[t].features = features_of(features[t], parts.nodes[t].count, assembly.pool, assembly.scratch);
  if (source.reverse) add_reverses(parts);
  Graph graph = join_types(std::move(parts), options, assembly);
  Graph papers = nodes_of(graph, assembly.targets.front());
  take_labels(labels, source.classes, papers);
  put_nodes(std::move(papers), assembly.targets.front(), graph);
  return graph;
}

}  // namespace strata::graph
