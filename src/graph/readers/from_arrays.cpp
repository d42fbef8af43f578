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

void refuse_pairs(const NpyArray& edges) {
  if (edges.shape.size() == 2 && edges.shape[0] == 2) return;
  throw InputError(fmt::format("{} has the shape {}", edges.origin, edges.shape_text()),
                   "Edges have the shape (2, E), sources first.");
}

void give_labels(Graph& graph, const NpyArray& array) {
  NodeLabels labels = labels_of(array);
  graph.labels = std::move(labels.values);
  graph.multi_label = labels.set_of > 0;
  graph.num_classes = labels.set_of;
}

std::vector<NodeId> split_of(const NpyArray& array, Count num_nodes) {
  if (!is_there(array)) return {};
  return array.kind == 'b' ? nodes_of_mask(array, num_nodes) : ids_of(array);
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
  refuse_pairs(arrays.edge_index);
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

}  // namespace strata::graph
