// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "build_csc.hpp"
#include "readers/assemble.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"
#include "readers/node_arrays.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

constexpr Count kNodesPerPiece = 4096;

std::string name_of(const EdgeType& type) {
  return fmt::format("({}, {}, {})", type.source, type.name, type.destination);
}

/// The edges of one relation, as lists of the destination type's nodes. Ids are local to the types.
struct RelationLists {
  Count source_offset = 0, first_node = 0, num_nodes = 0;
  EdgeId edge_offset = 0;
  CscGraph lists;

  Count degree(NodeId node) const {
    const Count v = node - first_node;
    if (v < 0 || v >= num_nodes) return 0;
    return lists.indptr[at(v) + 1] - lists.indptr[at(v)];
  }
};

std::size_t type_of(const std::string& name, const TypedArrays& arrays, const EdgeType& of) {
  const auto found = std::ranges::find(arrays.nodes, name, &TypedArrays::Nodes::type);
  if (found == arrays.nodes.end())
    throw InputError(
        fmt::format("the relation {} names the type '{}', which the graph does not have", name_of(of), name),
        "Give every type of nodes with its number of nodes.");
  return static_cast<std::size_t>(found - arrays.nodes.begin());
}

/// Refuses an end of an edge that is no node of its type.
void check_ends(const void* ids, const EdgeList& edges, const TypedArrays::Nodes& type,
                const std::string& origin) {
  const auto check = [&](const auto* ends) {
    for (Count e = 0; e < edges.count; ++e) {
      const Count id = ends[e * edges.stride];
      if (id >= 0 && id < type.count) continue;
      throw InputError(fmt::format("{}: edge {} names node {} of the type '{}', which has {} nodes", origin,
                                   e, id, type.type, type.count),
                       "Ids count from 0 within each type.");
    }
  };
  if (edges.wide)
    check(static_cast<const std::int64_t*>(ids));
  else
    check(static_cast<const std::int32_t*>(ids));
}

RelationLists lists_of(const TypedArrays::Edges& edges, const TypedArrays& arrays, const GraphTypes& types,
                       ThreadPool& pool) {
  const std::size_t source = type_of(edges.type.source, arrays, edges.type),
                    destination = type_of(edges.type.destination, arrays, edges.type);
  const NpyArray& array = edges.edge_index;
  if (array.shape.size() != 2 || array.shape[0] != 2)
    throw InputError(fmt::format("{}: the edges have the shape {}", name_of(edges.type), array.shape_text()),
                     "Edges have the shape (2, E), sources first.");
  EdgeArray list = edges_of(array);
  list.list.origin = name_of(edges.type);
  check_ends(list.list.sources, list.list, arrays.nodes[source], list.list.origin);
  check_ends(list.list.destinations, list.list, arrays.nodes[destination], list.list.origin);
  const Count nodes = std::max(arrays.nodes[source].count, arrays.nodes[destination].count);
  RelationLists result{
      .source_offset = types.node_offsets[source],
      .first_node = types.node_offsets[destination],
      .num_nodes = arrays.nodes[destination].count,
      .lists = build_csc(nodes, list.list, {.duplicates = EdgePolicy::keep}, pool).structure};
  if (edges.edge_weight.data == nullptr) return result;
  EdgeWeights weights = edge_weights_of(edges.edge_weight, nullptr);
  weights.give_to(list.list, list.list.origin);
  result.lists.weights.resize(result.lists.indices.size());
  for (Count e = 0; e < result.lists.num_edges(); ++e)
    result.lists.weights[at(e)] =
        list.list.weights[result.lists.edge_ids.empty() ? e : result.lists.edge_ids[at(e)]];
  return result;
}

GraphTypes types_of(const TypedArrays& arrays) {
  if (arrays.nodes.empty() || arrays.edges.empty())
    throw InputError("a graph of several types needs at least one type of nodes and one relation");
  if (arrays.edges.size() > std::numeric_limits<RelationId>::max())
    throw InputError(fmt::format("the graph has {} relations; at most {} are possible", arrays.edges.size(),
                                 std::numeric_limits<RelationId>::max()));
  GraphTypes types{.nodes = {}, .edges = {}, .node_offsets = {0}, .edge_offsets = {0}};
  for (const TypedArrays::Nodes& nodes : arrays.nodes) {
    if (nodes.count < 0 || std::ranges::count(types.nodes, nodes.type) > 0)
      throw InputError(fmt::format("the type '{}' is given twice, or has {} nodes", nodes.type, nodes.count));
    types.nodes.push_back(nodes.type);
    types.node_offsets.push_back(types.node_offsets.back() + nodes.count);
  }
  for (const TypedArrays::Edges& edges : arrays.edges) {
    if (std::ranges::count(types.edges, edges.type) > 0)
      throw InputError(fmt::format("the relation {} is given twice", name_of(edges.type)));
    types.edges.push_back(edges.type);
    const Count count = edges.edge_index.shape.size() == 2 ? edges.edge_index.shape[1] : 0;
    types.edge_offsets.push_back(types.edge_offsets.back() + count);
  }
  return types;
}

/// Numbers of entries and sublists before each node.
void count_lists(const std::vector<RelationLists>& relations, CscGraph& graph) {
  graph.indptr.assign(at(graph.num_nodes) + 1, 0);
  graph.sublists.first.assign(at(graph.num_nodes) + 1, 0);
  for (const RelationLists& relation : relations) {
    for (Count v = 0; v < relation.num_nodes; ++v) {
      const Count degree = relation.degree(relation.first_node + v);
      graph.indptr[at(relation.first_node + v) + 1] += degree;
      graph.sublists.first[at(relation.first_node + v) + 1] += degree > 0;
    }
  }
  std::partial_sum(graph.indptr.begin(), graph.indptr.end(), graph.indptr.begin());
  std::partial_sum(graph.sublists.first.begin(), graph.sublists.first.end(), graph.sublists.first.begin());
}

/// Writes the lists of a node, relation by relation.
void join_lists(const std::vector<RelationLists>& relations, NodeId node, CscGraph& graph) {
  Count next = graph.indptr[at(node)], sublist = graph.sublists.first[at(node)];
  for (std::size_t r = 0; r < relations.size(); ++r) {
    const RelationLists& relation = relations[r];
    const Count degree = relation.degree(node);
    if (degree == 0) continue;
    graph.sublists.relations[at(sublist)] = static_cast<RelationId>(r);
    graph.sublists.begins[at(sublist++)] = next;
    const Count first = relation.lists.indptr[at(node - relation.first_node)];
    for (Count e = first; e < first + degree; ++e, ++next) {
      graph.indices[at(next)] = relation.source_offset + relation.lists.indices[at(e)];
      graph.edge_ids[at(next)] =
          relation.edge_offset + (relation.lists.edge_ids.empty() ? e : relation.lists.edge_ids[at(e)]);
      if (!graph.weights.empty())
        graph.weights[at(next)] = relation.lists.weights.empty() ? 1 : relation.lists.weights[at(e)];
    }
  }
}

}  // namespace

Graph graph_from_typed_arrays(const TypedArrays& arrays, int num_threads) {
  ThreadPool pool(num_threads);
  Graph graph;
  graph.name = arrays.name;
  graph.types = types_of(arrays);
  CscGraph& structure = graph.structure;
  structure.num_nodes = graph.types.node_offsets.back();
  std::vector<RelationLists> relations;
  bool has_weights = false;
  for (std::size_t r = 0; r < arrays.edges.size(); ++r) {
    relations.push_back(lists_of(arrays.edges[r], arrays, graph.types, pool));
    relations.back().edge_offset = graph.types.edge_offsets[r];
    has_weights = has_weights || !relations.back().lists.weights.empty();
  }
  count_lists(relations, structure);
  const auto num_edges = at(structure.indptr.back()), num_sublists = at(structure.sublists.first.back());
  structure.indices.resize(num_edges);
  structure.edge_ids.resize(num_edges);
  if (has_weights) structure.weights.resize(num_edges);
  structure.sublists.relations.resize(num_sublists);
  structure.sublists.begins.resize(num_sublists + 1, structure.indptr.back());
  pool.parallel_for(structure.num_nodes, kNodesPerPiece, [&](Count begin, Count end) {
    for (NodeId node = begin; node < end; ++node) join_lists(relations, node, structure);
  });
  graph.cleaning.edges_read = structure.num_edges();
  if (arrays.x.data != nullptr) graph.features = features_of(arrays.x, structure.num_nodes, pool);
  graph.types.feature_cols = arrays.feature_cols;
  NodeArrays{arrays.y, arrays.train, arrays.valid, arrays.test}.give_to(graph);
  if (!graph.labels.empty() && std::ssize(graph.labels) != structure.num_nodes * graph.label_words())
    throw InputError(
        fmt::format("y has {} rows, but there are {} nodes", arrays.y.shape[0], structure.num_nodes),
        "Give one row per node.");
  finish_graph(graph, arrays.name, {}, pool);
  return graph;
}

}  // namespace strata::graph
