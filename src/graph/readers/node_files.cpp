// SPDX-License-Identifier: Apache-2.0
#include "readers/node_files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "readers/columns.hpp"
#include "readers/csv.hpp"
#include "readers/numpy/number_types.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

bool is_array(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.ends_with(".npy")) return true;
  if (name.ends_with(".csv") || name.ends_with(".csv.gz")) return false;
  throw InputError(fmt::format("{}: neither .npy nor .csv nor .csv.gz", path.string()),
                   "Write the array with numpy.save.");
}

CsvExpectation rows_of_nodes(Count num_nodes, std::optional<Count> cols = {}) {
  return {.rows = num_nodes, .cols = cols, .rows_from = "the graph's number of nodes"};
}

/// A mask that was stored as integers would be taken for the ids 0 and 1.
void refuse_integer_mask(const std::vector<NodeId>& ids, Count num_nodes, const std::string& origin) {
  if (std::ssize(ids) != num_nodes || num_nodes <= 2) return;
  if (std::ranges::all_of(ids, [](NodeId id) { return id == 0 || id == 1; }))
    throw InputError(fmt::format("{}: {} integers that are all 0 or 1: a mask, it seems", origin, ids.size()),
                     "Write masks as bool (mask.astype(bool)), or write the ids of the nodes.");
}

}  // namespace

std::optional<Count> rows_of_file(const fs::path& path, ThreadPool& pool) {
  if (!is_array(path)) return read_csv<double>(path, {}, pool).rows;
  const NpyArray array = read_npy(path);
  if (array.shape.empty()) return std::nullopt;
  return array.shape[0];
}

std::vector<NodeId> nodes_of_mask(const NpyArray& mask, Count num_nodes) {
  if (mask.size() != num_nodes || mask.shape.empty())
    throw InputError(
        fmt::format("{}: a mask of shape {} for {} nodes", mask.origin, mask.shape_text(), num_nodes),
        "Write one truth value per node, or the ids of the nodes as int64.");
  std::vector<NodeId> nodes;
  visit_numbers(mask, [&](const auto* values) {
    for (NodeId v = 0; v < num_nodes; ++v) {
      const auto value = to_number(values[v]);
      if (value == 1)
        nodes.push_back(v);
      else if (value != 0)
        throw InputError(fmt::format("{}: {} at {} of a mask is neither 0 nor 1", mask.origin, value, v),
                         "Write masks as bool.");
    }
  });
  return nodes;
}

FeatureTable read_features_file(const fs::path& path, Count num_nodes, ThreadPool& pool,
                                ScratchStore* scratch) {
  if (is_array(path)) return features_of(read_npy(path), num_nodes, pool, scratch);
  return read_csv_features(path, rows_of_nodes(num_nodes), pool, scratch);
}

void read_labels_file(Graph& graph, const fs::path& path, ThreadPool& pool) {
  const Count nodes = graph.num_nodes();
  NodeLabels labels = is_array(path)
                          ? labels_of(read_npy(path))
                          : labels_of(read_csv<double>(path, rows_of_nodes(nodes), pool), path.string());
  if (labels.rows != nodes)
    throw InputError(fmt::format("{}: {} labels for {} nodes", path.string(), labels.rows, nodes),
                     "Write one label per node; -1 or nan stands for a missing one.");
  graph.labels = std::move(labels.values);
  graph.multi_label = labels.set_of > 0;
  graph.num_classes = labels.set_of;
}

std::vector<NodeId> read_split_file(const fs::path& path, Count num_nodes, ThreadPool& pool) {
  if (!is_array(path)) return read_csv<NodeId>(path, {.rows = {}, .cols = 1, .rows_from = {}}, pool).values;
  const NpyArray array = read_npy(path);
  if (array.kind == 'b') return nodes_of_mask(array, num_nodes);
  std::vector<NodeId> ids = ids_of(array);
  refuse_integer_mask(ids, num_nodes, path.string());
  return ids;
}

}  // namespace strata::graph
