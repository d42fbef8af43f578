// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <string>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/numpy/mapped_file.hpp"
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
  bool has_all_labels = true;  ///< the full set, whose labels have no header, has those of its first nodes
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

/// Opens the arrays and refuses what does not fit before any of them is read.
IgbArrays open_arrays(const DatasetSource& source) {
  const fs::path folder = processed_folder(source.place), paper = folder / "paper";
  const fs::path features = paper / "node_feat.npy",
                 edges = folder / "paper__cites__paper" / "edge_index.npy",
                 labels = paper / (source.classes == 19 ? "node_label_19.npy" : "node_label_2K.npy");
  refuse_missing_files({features, edges, labels});
  IgbArrays arrays{.features = read_floats(features, kFeatureCols),
                   .edges = read_npy(edges),
                   .labels = read_floats(labels, 0),
                   .has_all_labels = is_npy(labels)};
  const std::vector<Count>& rows = arrays.features.shape;
  const std::vector<Count>& pairs = arrays.edges.shape;
  const std::vector<Count>& classes = arrays.labels.shape;
  require_form(arrays.features, "f", rows.size() == 2 && rows[1] > 0,
               "floats of shape (N, columns): a row of features per node");
  require_form(arrays.edges, "iu", pairs.size() == 2 && (pairs[0] == 2 || pairs[1] == 2),
               "integers of shape (E, 2): a source and a destination per edge");
  require_form(arrays.labels, "fiu", classes.size() == 1 || (classes.size() == 2 && classes[1] == 1),
               "numbers of shape (N,): a class per node");
  if (classes[0] > rows[0] || (arrays.has_all_labels && classes[0] != rows[0]))
    throw InputError(fmt::format("{}: {} labels for {} nodes, of which {} has the features",
                                 arrays.labels.origin, classes[0], rows[0], arrays.features.origin),
                     "Copy or download the files again.");
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
  graph.labels = labels_of(arrays.labels).values;
  if (std::ssize(graph.labels) < nodes)
    spdlog::info("{}: labels of the first {} of {} nodes", arrays.labels.origin, graph.labels.size(), nodes);
  graph.labels.resize(at(nodes), -1);
  graph.num_classes = source.classes;
  graph.splits = splits_of(graph.labels);
  return graph;
}

}  // namespace strata::graph
