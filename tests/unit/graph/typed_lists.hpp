// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/graph/graph.hpp"

namespace strata::graph {

/// The in-neighbors of a node over a relation.
inline std::vector<NodeId> sublist(const CscGraph& graph, NodeId node, RelationId relation) {
  const Sublists& lists = graph.sublists;
  for (Count s = lists.first[at(node)]; s < lists.first[at(node) + 1]; ++s)
    if (lists.relations[at(s)] == relation)
      return {graph.indices.begin() + lists.begins[at(s)], graph.indices.begin() + lists.begins[at(s) + 1]};
  return {};
}

inline std::vector<float> row(const Graph& graph, NodeId node) {
  const auto* const values = reinterpret_cast<const float*>(graph.features.data) + node * graph.features.cols;
  return {values, values + graph.features.cols};
}

}  // namespace strata::graph
