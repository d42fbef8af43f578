// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <numeric>
#include <utility>

#include "strata/graph/part_file.hpp"
#include "strata/graph/relation_ranges.hpp"

namespace strata::graph {

/// Moves the edges for which split_of(relation, source, destination, edge id) is not Split::train out of the
/// lists, to the edge splits.
template <typename SplitOf>
void hold_out(Graph& graph, const SplitOf& split_of) {
  CscGraph& lists = graph.structure;
  if (lists.edge_ids.empty()) {
    lists.edge_ids.resize(lists.indices.size());
    std::iota(lists.edge_ids.begin(), lists.edge_ids.end(), EdgeId{0});
  }
  const RelationRanges ranges(graph.types);
  Count kept = 0;
  for (NodeId node = 0; node < lists.num_nodes; ++node) {
    const Count first = std::exchange(lists.indptr[at(node)], kept), last = lists.indptr[at(node) + 1];
    for (Count e = first; e < last; ++e) {
      const NodeId source = lists.indices[at(e)];
      const EdgeId edge = lists.edge_ids[at(e)];
      const Split split = split_of(ranges.relation_of(edge), source, node, edge);
      if (split != Split::train) {
        if (graph.undirected && source > node) continue;
        HeldEdges& held = split == Split::valid ? graph.edge_splits.valid : graph.edge_splits.test;
        held.sources.push_back(source);
        held.destinations.push_back(node);
        held.edge_ids.push_back(edge);
        continue;
      }
      lists.indices[at(kept)] = source;
      lists.edge_ids[at(kept)] = edge;
      if (!lists.weights.empty()) lists.weights[at(kept)] = lists.weights[at(e)];
      ++kept;
    }
  }
  lists.indptr.back() = kept;
  lists.indices.resize(at(kept));
  lists.edge_ids.resize(at(kept));
  if (!lists.weights.empty()) lists.weights.resize(at(kept));
  lists.sublists = sublists_of(lists, graph.types);
  graph.edge_splits = {.valid = in_order(graph.edge_splits.valid), .test = in_order(graph.edge_splits.test)};
}

}  // namespace strata::graph
