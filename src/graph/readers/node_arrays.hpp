// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/graph/read_graph.hpp"

namespace strata::graph {

inline bool is_there(const NpyArray& array) { return array.data != nullptr || !array.shape.empty(); }

/// Gives the graph the labels and splits of arrays; those that are absent give none.
struct NodeArrays {
  const NpyArray &y, &train, &valid, &test;

  void give_to(Graph& graph) const;
};

}  // namespace strata::graph
