// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "readers/node_files.hpp"
#include "readers/numpy/node_arrays.hpp"
#include "readers/typed_graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kNodeFiles{"x.npy",     "y.npy",     "targets.npy", "num_nodes.npy",
                                          "train.npy", "valid.npy", "val.npy",     "test.npy"};
const std::vector<std::string> kEdgeFiles{"edge_index.npy", "edge_weight.npy"};

/// The folders in a folder, in the order of their names.
std::vector<fs::path> folders_in(const fs::path& folder, const char* example) {
  std::vector<fs::path> folders;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code))
    if (entry.is_directory()) folders.push_back(entry.path());
  if (folders.empty())
    throw InputError(fmt::format("{}: no folder in it", folder.string()),
                     fmt::format("A graph of several types has one per {}.", example));
  std::ranges::sort(folders);
  return folders;
}

bool has_any(const fs::path& folder, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return fs::exists(folder / name); });
}

TypedParts::Nodes read_nodes(const fs::path& folder, Assembly& assembly) {
  check_array_names(folder, kNodeFiles);
  StatedNodes stated{.folder = folder};
  stated.take_arrays();
  if (!stated.nodes)
    throw InputError(fmt::format("{}: neither x.npy, y.npy nor num_nodes.npy", folder.string()),
                     "Write the number of nodes: numpy.save(\"num_nodes.npy\", N).");
  Graph nodes;
  nodes.structure.num_nodes = *stated.nodes;
  TypedParts::Nodes type{.type = folder.filename().string(), .count = *stated.nodes};
  require_utf8(type.type, "the name of a type of nodes");
  if (fs::exists(folder / "x.npy"))
    type.features = read_features_file(nodes, folder / "x.npy", assembly.pool, assembly.scratch);
  return type;
}

TypedParts::Edges read_relation(const fs::path& folder, ScratchStore* scratch) {
  check_array_names(folder, kEdgeFiles);
  const NpyArray ends = read_npy(folder / "edge_index.npy");
  refuse_pairs(ends);
  require_utf8(folder.filename().string(), "the name of a relation");
  TypedParts::Edges edges =
      edges_between(parse_relation(folder.filename().string(), "__", folder.string()), ends, scratch);
  const fs::path weights = folder / "edge_weight.npy";
  if (fs::exists(weights)) give_weights(edges, edge_weights_of(read_npy(weights), scratch), weights.string());
  return edges;
}

}  // namespace

Graph read_typed_npy(const DatasetSource& source, const ReadOptions& options, Assembly& assembly) {
  const fs::path& folder = source.place;
  if (source.nodes && source.nodes_from.empty())
    throw InputError(fmt::format("{}: nodes={} of a graph of several types", folder.string(), *source.nodes),
                     "Write the number of each type into nodes/TYPE/num_nodes.npy.");
  const std::vector<fs::path> types = folders_in(folder / "nodes", "type of nodes: nodes/TYPE"),
                              relations =
                                  folders_in(folder / "edges", "relation: edges/SOURCE__NAME__DESTINATION");
  TypedParts parts{.name = fs::weakly_canonical(folder).filename().string(), .nodes = {}, .edges = {}};
  std::vector<std::size_t> labelled;
  for (const fs::path& type : types) {
    if (has_any(type, {"y.npy", "targets.npy", "train.npy", "valid.npy", "val.npy", "test.npy"}))
      labelled.push_back(parts.nodes.size());
    parts.nodes.push_back(read_nodes(type, assembly));
  }
  assembly.targets = choose_targets(parts.nodes, labelled, source.target, folder.string());
  for (const fs::path& relation : relations) parts.edges.push_back(read_relation(relation, assembly.scratch));
  if (source.reverse) add_reverses(parts);
  Graph graph = join_types(std::move(parts), options, assembly);
  for (const std::size_t target : assembly.targets) {
    Graph nodes = nodes_of(graph, target);
    read_labels_and_splits(nodes, types[target], assembly.pool, assembly.scratch);
    put_nodes(std::move(nodes), target, graph);
  }
  return graph;
}

}  // namespace strata::graph
