// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "evaluation/node_set.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::train {

/// The nodes, by layer, that exact evaluation computes outputs of. A null set stands for all nodes.
using NeededNodes = std::vector<std::unique_ptr<const NodeSet>>;

/// The nodes to score need the last layer's output. A layer's output for some nodes needs the output of the
/// layer before for these nodes and their in-neighbors. If a layer needs more than the share `most` of all
/// nodes, it and the layers before it are computed for all nodes, because gathering some rows costs more than
/// computing the rest.
///
/// If only node 0 is scored on a path 0 <- 1 <- 2 <- 3 of in-neighbors, three layers need {0, 1, 2}, {0, 1}
/// and {0}. find_needed_nodes() is collective; the result is the same on every rank. `for_scored` calls its
/// argument for nodes of this machine to score, by global id; the ranks of a machine may divide them.
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
