// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "evaluation/node_set.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::train {

/// Whose output of each layer exact evaluation computes. A null set stands for all nodes.
using NeededNodes = std::vector<std::unique_ptr<const NodeSet>>;

/// The nodes to score need the last layer's output; a layer's output needs that of the layer before of its
/// nodes and of their in-neighbors. From the layer on where more than `most` of all nodes are needed it is
/// all of them, for gathering some costs more than computing the rest.
///
/// Of a path 0 <- 1 <- 2 <- 3 of in-neighbors and scores of node 0 alone, three layers need {0, 1, 2}, {0,
/// 1} and {0}. Collective; the same on every rank. `scored` calls its argument for nodes of this machine, by
/// global id, on any of its ranks. `pieces` are equal parts that the ranks of a machine take of its nodes.
struct NeededNodesRequest {
  const comm::Communicator* communicator = nullptr;
  const store::GraphView* graph = nullptr;  ///< in host memory
  int rank_of_machine = 0, ranks_of_machine = 1;
  int num_layers = 0;
  double most = 0.5;
  ThreadPool* pool = nullptr;
  std::function<void(const std::function<void(NodeId)>&)> for_scored;
};
NeededNodes find_needed_nodes(const NeededNodesRequest& request);

}  // namespace strata::train
