// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "evaluation/edge_shares.hpp"
#include "evaluation/staged.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/block.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::train {

/// A piece of one node's neighbor list as a block on a device. The node itself is the dst node and the first
/// src node; its neighbors follow, one per edge. An owner of the block's arrays.
///
///     entries 3 to 5 of node 7's list {.., 9, 7, 4, ..}:   src_nodes {7, 9, 7, 4}   indices {1, 0, 3}
class ListPiece {
 public:
  struct Options {
    const store::GraphView* graph = nullptr;  ///< in host memory, with the node's list
    Device device;
    bool in_degrees = false;
    bool by_weight = false;  ///< edges count by their EdgeShares; those of weight 0 are left out
  };
  explicit ListPiece(const Options& options) : options_(options), shares_(*options.graph) {}

  struct Blocks {
    sampling::Block piece;
    sampling::Block own;  ///< the node without edges
  };
  /// Makes the blocks of entries [begin, end) of the list. They are valid from this point of `stream` until
  /// the next call.
  Blocks read(NodeId node, Count begin, Count end, const cuda::Stream& stream);

 private:
  void add(NodeId node, Count entry);

  Options options_;
  EdgeShares shares_;
  NodeId node_ = -1;  // node that `factor_` belongs to
  double factor_ = 1;
  Staged<Count> indptr_;
  Staged<std::int32_t> indices_, in_degrees_;
  Staged<float> weights_;
  Staged<NodeId> nodes_;
};

}  // namespace strata::train
