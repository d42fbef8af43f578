// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"
#include "readers/node_files.hpp"
#include "readers/numpy/sparse_matrix.hpp"
#include "readers/typed_graph.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

bool is_there(const NpyArray& array) { return array.data != nullptr || !array.shape.empty(); }

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

Splits splits_of(const auto& arrays, Count num_nodes) {
  return {.train = split_of(arrays.train, num_nodes),
          .valid = split_of(arrays.valid, num_nodes),
          .test = split_of(arrays.test, num_nodes)};
}

TypedParts parts_of(const TypedArrays& arrays, ThreadPool& pool) {
  TypedParts parts{.name = arrays.name, .nodes = {}, .edges = {}};
  for (const TypedArrays::Nodes& type : arrays.nodes) {
    TypedParts::Nodes& nodes = parts.nodes.emplace_back();
    nodes = {.type = type.type, .count = type.count};
    if (is_there(type.x)) nodes.features = features_of(type.x, type.count, pool);
  }
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

/// The type with labels or splits, and what it has.
void read_target(const TypedArrays& arrays, const TypedParts& parts, ThreadPool& pool, Graph& graph) {
  std::vector<std::size_t> labelled;
  for (std::size_t t = 0; t < arrays.nodes.size(); ++t) {
    const TypedArrays::Nodes& type = arrays.nodes[t];
    if (is_there(type.y) || is_there(type.train) || is_there(type.valid) || is_there(type.test))
      labelled.push_back(t);
  }
  if (labelled.empty()) return;
  const auto target = choose_target(parts.nodes, labelled, {}, arrays.name);
  const TypedArrays::Nodes& type = arrays.nodes[*target];
  Graph nodes = nodes_of(graph, *target);
  if (is_there(type.y)) give_labels(nodes, type.y);
  nodes.splits = splits_of(type, nodes.num_nodes());
  finish_graph(nodes, fmt::format("{}: {}", arrays.name, type.type), {}, pool);
  put_nodes(std::move(nodes), *target, graph);
}

}  // namespace

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
  if (is_there(arrays.y)) give_labels(graph, arrays.y);
  graph.splits = splits_of(arrays, nodes);
  finish_graph(graph, arrays.name, options, pool);
  return graph;
}

Graph graph_from_typed_arrays(const TypedArrays& arrays, int num_threads) {
  ThreadPool pool(num_threads);
  const TypedParts parts = parts_of(arrays, pool);
  Graph graph;
  graph.name = arrays.name;
  join_lists(parts, {.duplicates = EdgePolicy::keep}, pool, graph);
  join_features(parts, pool, graph);
  if (is_there(arrays.x)) graph.features = features_of(arrays.x, graph.num_nodes(), pool);
  read_target(arrays, parts, pool, graph);
  return graph;
}

}  // namespace strata::graph
