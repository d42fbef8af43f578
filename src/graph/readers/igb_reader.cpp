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

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

constexpr Count kFeatureCols = 1024;
constexpr double kTrainShare = 0.6, kValidShare = 0.2;

/// An array of float32 with `cols` columns. The largest sets of IGB have no header of NumPy, whatever their
/// names end with. `cols` is 0 for a vector.
NpyArray read_floats(const fs::path& path, Count cols) {
  if (is_npy(path)) return read_npy(path);
  const auto file = std::make_shared<const MappedFile>(path);
  const std::size_t row_bytes = 4 * static_cast<std::size_t>(std::max<Count>(cols, 1));
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
  const fs::path folder = processed_folder(source.place);
  Graph graph;
  graph.name = "igb-" + fs::weakly_canonical(source.place).filename().string();
  const NpyArray features = read_floats(folder / "paper" / "node_feat.npy", kFeatureCols);
  if (features.shape.empty())
    throw InputError(fmt::format("{}: features of shape ()", features.origin),
                     "Copy or download the file again.");
  const Count nodes = features.shape[0];
  {
    const EdgeArray edges =
        edges_of(read_npy(folder / "paper__cites__paper" / "edge_index.npy"), assembly.scratch);
    build_structure(graph, nodes, edges.list, options,
                    options.direction == ReadOptions::Direction::undirected, assembly);
  }
  graph.features = features_of(features, nodes, assembly.pool, assembly.scratch);
  const char* const file = source.classes == 19 ? "node_label_19.npy" : "node_label_2K.npy";
  NodeLabels labels = labels_of(read_floats(folder / "paper" / file, 0));
  if (labels.rows > nodes || labels.set_of > 0)
    throw InputError(
        fmt::format("{}: {} labels for {} nodes", (folder / "paper" / file).string(), labels.rows, nodes),
        "Copy or download the files again.");
  labels.values.resize(static_cast<std::size_t>(nodes), -1);  // of the full set, the first nodes have labels
  graph.labels = std::move(labels.values);
  graph.num_classes = source.classes;
  graph.splits = splits_of(graph.labels);
  return graph;
}

}  // namespace strata::graph
