// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/util/types.hpp"

/// What a machine keeps of nodes that other machines own, so that it need not ask for them.
namespace strata::store {

/// A set of nodes, each of which has a position. An owner of about 16 bytes per node.
class NodeIndex {
 public:
  NodeIndex() = default;
  /// nodes[i] gets position i. The nodes are distinct, below num_nodes, and in any order.
  NodeIndex(std::span<const NodeId> nodes, NodeId num_nodes);

  Count size() const { return static_cast<Count>(nodes_.size()); }

  /// The node's position, or -1. Reads a few neighboring entries. Thread safe.
  Count find(NodeId node) const {
    if (nodes_.empty()) return -1;
    const auto bucket = static_cast<std::size_t>(node >> shift_);
    for (auto i = first_[bucket]; i < first_[bucket + 1]; ++i)
      if (nodes_[i] == node) return positions_[i];
    return -1;
  }

 private:
  int shift_ = 0;                     // from an id to its bucket; there are about as many buckets as nodes
  std::vector<std::uint32_t> first_;  // of each bucket, and the end
  std::vector<NodeId> nodes_;         // by bucket
  std::vector<std::int32_t> positions_;
};

}  // namespace strata::store
