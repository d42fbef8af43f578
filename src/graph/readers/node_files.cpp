// SPDX-License-Identifier: Apache-2.0
#include "readers/node_files.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <limits>

#include "readers/columns.hpp"
#include "readers/csv.hpp"
#include "readers/node_table.hpp"
#include "readers/numpy/number_types.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

/// Whether a file is an array of NumPy, whatever its name.
bool is_array(const fs::path& path) {
  static constexpr std::array kOthers{".npz",  ".pt",      ".pth",     ".pkl", ".h5",
                                      ".hdf5", ".parquet", ".feather", ".mat"};
  if (is_npy(path)) return true;
  const std::string ending = path.extension().string();
  if (std::ranges::find(kOthers, ending) != kOthers.end())
    throw InputError(fmt::format("{}: neither .npy nor a table of text, such as .csv", path.string()),
                     "Write the array with numpy.save.");
  return ending == ".npy";
}

/// Refuses an id that stands in two rows, and with `all` a node that has none.
void check_ids(const std::vector<NodeId>& ids, Count num_nodes, bool all, const std::string& path) {
  std::vector<bool> seen(at(num_nodes));
  for (std::size_t row = 0; row < ids.size(); ++row) {
    if (seen[at(ids[row])])
      throw InputError(
          fmt::format("{}: the node of row {}, number {}, has a row before", path, row, ids[row]),
          "Write one row per node.");
    seen[at(ids[row])] = true;
  }
  if (!all || std::ssize(ids) == num_nodes) return;
  throw InputError(fmt::format("{}: rows for {} of {} nodes; the first without one is node {}", path,
                               ids.size(), num_nodes, std::ranges::find(seen, false) - seen.begin()),
                   "Write one row per node; ids count from 0, as those of the edges.");
}

/// Refuses a mask that was stored as integers, which would be taken for the ids 0 and 1.
void refuse_integer_mask(const std::vector<NodeId>& ids, Count num_nodes, const std::string& origin) {
  if (std::ssize(ids) != num_nodes || num_nodes <= 2) return;
  if (std::ranges::all_of(ids, [](NodeId id) { return id == 0 || id == 1; }))
    throw InputError(fmt::format("{}: {} integers that are all 0 or 1: a mask, it seems", origin, ids.size()),
                     "Write masks as bool (mask.astype(bool)), or write the ids of the nodes.");
}

}  // namespace

std::optional<NodesOfFile> nodes_of_file(const fs::path& path, ThreadPool& pool) {
  if (is_array(path)) {
    const NpyArray array = read_npy(path);
    if (array.shape.empty()) return std::nullopt;
    return NodesOfFile{.nodes = array.shape[0]};
  }
  const CsvRows rows = count_csv_rows(path);
  const NodeTable table = NodeTable::look_at(path, NodeTable::Holds::labels);
  if (table.id < 0) return NodesOfFile{.nodes = rows.rows, .spare = rows.blank_at_end};
  constexpr Count kAlways = 1'000'000, kPerRow = 64;
  const Count nodes = num_nodes_for(largest_node_id(table, pool), path.string());
  if (nodes > kAlways && nodes / kPerRow > rows.rows) return std::nullopt;
  return NodesOfFile{.nodes = nodes, .spare = std::numeric_limits<Count>::max()};
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

FeatureTable read_features_file(const Graph& graph, const fs::path& path, ThreadPool& pool,
                                ScratchStore* scratch) {
  const Count nodes = graph.num_nodes();
  if (is_array(path)) return features_of(read_npy(path), nodes, pool, scratch);
  const NodeTable table = NodeTable::look_at(path, NodeTable::Holds::features);
  table.log("features");
  if (table.id < 0) return read_csv_features(path, table.expecting(nodes), pool, scratch);
  const std::vector<NodeId> ids = read_node_ids(table, table.id, graph, pool, scratch);
  check_ids(ids, nodes, true, path.string());
  return read_csv_features(path, table.expecting(nodes), pool, scratch, ids);
}

namespace {

/// The labels of a table that has an id in each row; the other nodes have none.
NodeLabels labels_by_ids(const NodeTable& table, const Graph& graph, ThreadPool& pool,
                         const ScratchStore* scratch, LabelKind kind) {
  const std::vector<NodeId> ids = read_node_ids(table, table.id, graph, pool, scratch);
  check_ids(ids, graph.num_nodes(), false, table.path.string());
  const NodeLabels of_rows =
      read_csv_labels(table.path, table.expecting(std::ssize(ids)), pool, scratch, kind);
  NodeLabels labels = missing_labels(graph.num_nodes(), of_rows.shape());
  const Count words = labels.words();
  for (std::size_t row = 0; row < ids.size(); ++row)
    std::copy_n(of_rows.values.data() + static_cast<Count>(row) * words, words,
                labels.values.data() + ids[row] * words);
  if (std::ssize(ids) < graph.num_nodes())
    spdlog::warn("{}: {} of {} nodes have no row, and so no label", table.path.string(),
                 format_count(graph.num_nodes() - std::ssize(ids)), format_count(graph.num_nodes()));
  return labels;
}

NodeLabels read_label_table(const fs::path& path, const Graph& graph, ThreadPool& pool,
                            const ScratchStore* scratch, LabelKind kind) {
  const NodeTable table = NodeTable::look_at(path, NodeTable::Holds::labels);
  table.log(kind == LabelKind::targets ? "targets" : "labels");
  if (table.id >= 0) return labels_by_ids(table, graph, pool, scratch, kind);
  return read_csv_labels(path, table.expecting(graph.num_nodes()), pool, scratch, kind);
}

}  // namespace

void read_labels_file(Graph& graph, const fs::path& path, ThreadPool& pool, const ScratchStore* scratch,
                      LabelKind kind) {
  const Count nodes = graph.num_nodes();
  NodeLabels labels =
      is_array(path) ? labels_of(read_npy(path), kind) : read_label_table(path, graph, pool, scratch, kind);
  if (labels.rows != nodes)
    throw InputError(fmt::format("{}: {} labels for {} nodes", path.string(), labels.rows, nodes),
                     "Write one label per node; -1 or nan stands for a missing one.");
  graph.labels = std::move(labels.values);
  graph.multi_label = labels.set_of > 0;
  graph.num_classes = labels.set_of;
  graph.target_cols = labels.targets;
}

std::vector<NodeId> read_split_file(const Graph& graph, const fs::path& path, ThreadPool& pool) {
  if (!is_array(path)) {
    const NodeTable table = NodeTable::look_at(path, NodeTable::Holds::split);
    table.log("ids");
    if (table.id >= 0 && !graph.node_names.empty())
      return read_node_ids(table, table.id, graph, pool, nullptr);
    CsvExpectation expected = table.expecting(std::nullopt);
    expected.cols = 1;
    return read_csv<NodeId>(path, expected, pool).values;
  }
  const NpyArray array = read_npy(path);
  if (array.kind == 'b') return nodes_of_mask(array, graph.num_nodes());
  std::vector<NodeId> ids = ids_of(array);
  refuse_integer_mask(ids, graph.num_nodes(), path.string());
  return ids;
}

}  // namespace strata::graph
