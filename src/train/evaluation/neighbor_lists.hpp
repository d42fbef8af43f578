// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "strata/sampling/block.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/threads.hpp"

namespace strata::train {

/// Neighbor lists of this machine's nodes, as exact evaluation needs them on a device. If training samples by
/// weight, edges count by their shares: in proportion to their weights, and 1 on average over a node's list, or
/// over its neighbors of one relation, as in a draw of the sampler.
///
///     weights {3, 1, 0, 4} of a node's edges:   shares {1.5, 0.5, 0, 2}
///
/// A list whose weights are all 0 does not count. An owner: the arrays that it returns are valid until its
/// next call.
class NeighborLists {
 public:
  struct Options {
    const store::GraphView* graph = nullptr;  ///< in host memory
    Device device;
    bool in_degrees = false;  ///< pieces need Block::src_in_degrees
    bool by_weight = false;
    ThreadPool* pool = nullptr;
  };
  explicit NeighborLists(const Options& options) : options_(options) {}

  /// The shares of the nodes' edges, one list after the other; null unless edges count by weight.
  const float* shares(std::span<const NodeId> nodes);

  /// Entries [begin, end) of a node's list as a block. The node itself is the dst node and the first src
  /// node; its neighbors follow, one per edge. Edges that do not count are left out.
  ///
  /// REQUIRES: one relation.
  ///
  ///     entries 3 to 5 of node 7's list {.., 9, 7, 4, ..}:   src_nodes {7, 9, 7, 4}   indices {1, 0, 3}
  sampling::Block piece(NodeId node, Count begin, Count end);

 private:
  const Count* ends_of(NodeId node) const {
    return options_.graph->indptr + (node - options_.graph->first_node);
  }
  double factor(const Count* ends) const;
  void add_shares(const Count* ends, float* out) const;
  float share(Count entry, double factor) const;

  Options options_;
  NodeId node_ = -1;  // node that `factor_` belongs to
  double factor_ = 1;
  std::vector<at::Tensor> arrays_;
};

}  // namespace strata::train
