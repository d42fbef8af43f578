// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/graph/graph.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/util/scratch.hpp"

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
  int node_weight_kinds = 0;
  std::uint64_t seed = 1;
};

/// Between 0 and 99: of kind 0 large for low ids, of the others at random.
graph::NodeWeights random_node_weights(Count num_nodes, int kinds, std::uint64_t seed = 1);

/// A graph with skewed degrees, isolated nodes, labels of which some are missing, and splits that leave nodes
/// out.
graph::Graph random_graph(const RandomGraphOptions& options);

/// 64 communities of nodes that lie far from each other in the numbering: node v is in community v % 64. Nine
/// of ten edges lie within one.
graph::CscGraph communities(Count nodes, Count pairs);

/// The same graph in scratch files, with ids of 64 bits or of 32.
graph::StoredLists stored(const graph::CscGraph& graph, bool wide, ScratchStore& scratch);

}  // namespace strata::test
