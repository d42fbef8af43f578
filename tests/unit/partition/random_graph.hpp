// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/graph/graph.hpp"

namespace strata::test {

struct RandomGraphOptions {
  Count num_nodes = 200;
  Count num_edges = 1500;  ///< as drawn; an undirected graph stores each twice
  bool undirected = false;
  bool clean = false;  ///< neither self-loops nor repeated edges
  Count feature_cols = 5;
  DType feature_dtype = DType::f32;
  bool labels = true;
  bool label_sets = false;  ///< of 40 classes
  bool weights = false;     ///< of edges; both directions of an undirected one share it
  std::uint64_t seed = 1;
};

/// A graph with skewed degrees, isolated nodes, labels of which some are missing, and splits that leave nodes
/// out.
graph::Graph random_graph(const RandomGraphOptions& options);

}  // namespace strata::test
