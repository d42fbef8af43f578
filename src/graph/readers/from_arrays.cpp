// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"
#include "readers/node_arrays.hpp"
#include "readers/node_files.hpp"
#include "readers/numpy/sparse_matrix.hpp"
#include "readers/typed_graph.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

/// The number of nodes that the arrays state; all of them must agree.
Count count_nodes(const GraphArrays& arrays, const EdgeList& edges) {
  std::optional<Count> nodes = arrays.num_nodes;
  std::string stated_by = "num_nodes";
  if (nodes && *nodes < 0)
    throw InputError(fmt::format("num_nodes is {}", *nodes), "Give the number of nodes, at least 0.");
  for (const auto& [array, name] : {std::pair{&arrays.x, "x"}, std::pair{&arrays.y, "y"}}) {
    if (!is_there(*array) || array->shape.empty()) continue;
    if (nodes && *nodes != array->shape[0]) {
      throw InputError(
          fmt::format("{} says {} nodes, {} has {} rows", stated_by, *nodes, name, array->shape[0]),
          "Give one row per node.");
    }
    nodes = array->shape[0];
    stated_by = name;
  }
  return nodes ? *nodes : num_nodes_for(largest_id(edges, nullptr), edges.origin);
}

void require_pairs(const NpyArray& edges) {
  if (edges.shape.size() == 2 && edges.shape[0] == 2) return;
  throw InputError(fmt::format("{} has the shape {}", edges.origin, edges.shape_text()),
                   "Edges have the shape (2, E), sources first.");
}

void give_labels(Graph& graph, const NpyArray& array) {
  NodeLabels labels = labels_of(array);
  if (labels.rows != graph.num_nodes())
    throw InputError(fmt::format("{}: {} labels for {} nodes", array.origin, labels.rows, graph.num_nodes()),
                     "Give one label per node; -1 or nan stands for a missing one.");
  graph.labels = std::move(labels.values);
  graph.multi_label = labels.set_of > 0;
  graph.num_classes = labels.set_of;
}

std::vector<NodeId> split_of(const NpyArray& array, Count num_nodes) {
  if (!is_there(array)) return {};
  return array.kind == 'b' ? nodes_of_mask(array, num_nodes) : ids_of(array);
}

TypedParts parts_of(const TypedArrays& arrays) {
  TypedParts parts{.name = arrays.name, .nodes = {}, .edges = {}};
  for (const TypedArrays::Nodes& type : arrays.nodes)
    parts.nodes.push_back({.type = type.type, .count = type.count});
  for (const TypedArrays::Edges& relation : arrays.edges) {
    const std::string name = name_of(relation.type);
    NpyArray ends = relation.edge_index;
    ends.origin = name;
    require_pairs(ends);
    TypedParts::Edges& edges = parts.edges.emplace_back(edges_between(relation.type, ends));
    if (is_there(relation.edge_weight))
      give_weights(edges, edge_weights_of(relation.edge_weight, nullptr), name);
  }
  return parts;
}

}  // namespace

void NodeArrays::give_to(Graph& graph) const {
  if (is_there(y)) give_labels(graph, y);
  const Count nodes = graph.num_nodes();
  graph.splits = {
      .train = split_of(train, nodes), .valid = split_of(valid, nodes), .test = split_of(test, nodes)};
}

Graph graph_from_arrays(const GraphArrays& arrays, const ReadOptions& options) {
  ThreadPool pool(options.num_threads);
  Assembly assembly{.pool = pool};
  Graph graph;
  graph.name = arrays.name;
  require_pairs(arrays.edge_index);
  EdgeArray edges = edges_of(arrays.edge_index);
  std::optional<EdgeWeights> weights;
  if (is_there(arrays.edge_weight)) {
    weights.emplace(edge_weights_of(arrays.edge_weight, nullptr));
    weights->give_to(edges.list, arrays.edge_weight.origin);
  }
  const Count nodes = count_nodes(arrays, edges.list);
  build_structure(graph, nodes, edges.list, options, options.direction == ReadOptions::Direction::undirected,
                  assembly);
  if (is_there(arrays.x)) graph.features = features_of(arrays.x, nodes, pool);
  NodeArrays{arrays.y, arrays.train, arrays.valid, arrays.test}.give_to(graph);
  finish_graph(graph, arrays.name, options, pool);
  return graph;
}

Graph graph_from_typed_arrays(const TypedArrays& arrays, int num_threads) {
  ThreadPool pool(num_threads);
  const TypedParts parts = parts_of(arrays);
  Graph graph;
  graph.name = arrays.name;
  join_lists(parts, {.duplicates = EdgePolicy::keep}, pool, graph);
  if (is_there(arrays.x)) graph.features = features_of(arrays.x, graph.num_nodes(), pool);
  graph.types.feature_cols = arrays.feature_cols;
  NodeArrays{arrays.y, arrays.train, arrays.valid, arrays.test}.give_to(graph);
  finish_graph(graph, arrays.name, {}, pool);
  return graph;
}

}  // namespace strata::graph
