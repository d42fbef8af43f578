// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "strata/store/machine_graph.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::train {

/// The shares with which exact evaluation counts edges that training samples by weight: in proportion to
/// their weights, and 1 on average over a node's list, as in a draw of the sampler.
///
///     weights {3, 1, 0, 4} of a node's edges:   shares {1.5, 0.5, 0, 2}
///
/// A list whose weights are all 0 does not count. A view of the graph's structure in host memory.
class EdgeShares {
 public:
  explicit EdgeShares(const store::GraphView& graph) : graph_(&graph) {}

  /// The factor by which the weights of a node's list are multiplied. For nodes of this machine.
  double factor(NodeId node) const;
  float of(Count entry, double factor) const {
    return static_cast<float>(static_cast<double>(graph_->weights[entry]) * factor);
  }
  /// Writes the shares of the nodes' lists, one list after the other.
  void list(std::span<const NodeId> nodes, std::vector<float>& shares, ThreadPool& pool) const;

 private:
  const store::GraphView* graph_;
};

}  // namespace strata::train
