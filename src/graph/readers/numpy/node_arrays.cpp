// SPDX-License-Identifier: Apache-2.0
#include "readers/numpy/node_arrays.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "readers/columns.hpp"
#include "readers/node_files.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

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

/// The array that a name nearly is; empty: none.
std::string meant_by(const fs::path& file, const std::vector<std::string>& known) {
  const auto other = kOtherNames.find(file.stem().string());
  if (other != kOtherNames.end() && std::ranges::find(known, other->second + ".npy") != known.end())
    return other->second + ".npy";
  return closest(file.filename().string(), known);
}

Count number_in(const fs::path& path) {
  NpyArray array = read_npy(path);
  if (array.shape.empty()) array.shape = {1};
  const std::vector<NodeId> numbers = ids_of(array);
  if (numbers.size() != 1 || numbers[0] < 0)
    throw InputError(fmt::format("{}: not one number of nodes", array.origin), "Write numpy.array(N).");
  return numbers[0];
}

}  // namespace

void check_array_names(const fs::path& folder, const std::vector<std::string>& known) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::string ending = entry.path().extension().string();
    if ((ending != ".npy" && ending != ".npz") || std::ranges::find(known, name) != known.end()) continue;
    const std::string meant = meant_by(entry.path(), known), shown = (folder / printable(name)).string();
    if (!meant.empty() && !fs::exists(folder / meant))
      throw InputError(fmt::format("{}: no array of this name is read", shown),
                       fmt::format("Did you mean '{}'? Known are: {}.", meant, fmt::join(known, ", ")));
    spdlog::warn("{}: not read; known names are {}", shown, fmt::join(known, ", "));
  }
}

void refuse_pairs(const NpyArray& edges) {
  if (edges.shape.size() == 2 && edges.shape[0] != 2 && edges.shape[1] == 2)
    throw InputError(fmt::format("{}: edges of shape {}", edges.origin, edges.shape_text()),
                     "Edges have the shape (2, E), sources first: write numpy.ascontiguousarray(edges.T).");
}

void StatedNodes::take(std::optional<Count> stated, const std::string& stated_by) {
  if (!stated) return;
  if (nodes && *nodes != *stated)
    throw InputError(
        fmt::format("{}: {} says {} nodes, {} says {}", folder.string(), by, *nodes, stated_by, *stated),
        "Write one row per node in each file.");
  nodes = stated;
  by = stated_by;
}

void StatedNodes::take_arrays() {
  if (fs::exists(folder / "num_nodes.npy")) take(number_in(folder / "num_nodes.npy"), "num_nodes.npy");
  for (const char* const name : {"x.npy", "y.npy", "targets.npy", "node_weight.npy"}) {
    if (!fs::exists(folder / name)) continue;
    const NpyArray array = read_npy(folder / name);
    if (!array.shape.empty()) take(array.shape[0], name);
  }
}

void read_labels_and_splits(Graph& graph, const fs::path& folder, ThreadPool& pool,
                            const ScratchStore* scratch) {
  const auto has = [&](const char* name) { return fs::exists(folder / name); };
  const auto split = [&](const char* name) {
    return has(name) ? read_split_file(graph, folder / name, pool) : std::vector<NodeId>();
  };
  if (has("y.npy") && has("targets.npy"))
    throw InputError(fmt::format("{}: both y.npy and targets.npy", folder.string()),
                     "Nodes have classes (y.npy) or targets of regression: remove one of them.");
  if (has("y.npy")) read_labels_file(graph, folder / "y.npy", pool, scratch);
  if (has("targets.npy")) read_labels_file(graph, folder / "targets.npy", pool, scratch, LabelKind::targets);
  if (has("valid.npy") && has("val.npy"))
    throw InputError(fmt::format("{}: both valid.npy and val.npy", folder.string()), "Remove one of them.");
  graph.splits = {.train = split("train.npy"),
                  .valid = split(has("val.npy") ? "val.npy" : "valid.npy"),
                  .test = split("test.npy")};
}

}  // namespace strata::graph
