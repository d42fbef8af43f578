// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

/// What a machine keeps of nodes that other machines own, so that it need not ask for them.
namespace strata::store {

/// A NodeIndex as it lies in the memory of a host or a GPU.
struct NodeIndexView {
  int shift = 0;                            ///< from an id to its bucket
  const std::uint32_t* first = nullptr;     ///< [num_buckets + 1] of each bucket, and the end
  const NodeId* nodes = nullptr;            ///< [size] by bucket
  const std::int32_t* positions = nullptr;  ///< [size] of these nodes
  Count num_buckets = 0, size = 0;

  /// The node's position, or -1. Reads a few neighboring entries.
  STRATA_HOST_DEVICE Count find(NodeId node) const {
    if (size == 0) return -1;
    const Count bucket = node >> shift;
    for (std::uint32_t i = first[bucket]; i < first[bucket + 1]; ++i)
      if (nodes[i] == node) return positions[i];
    return -1;
  }
};

/// A set of nodes, each of which has a position. An owner of about kBytesPerNode.
class NodeIndex {
 public:
  static constexpr std::int64_t kBytesPerNode = 16;
  NodeIndex() = default;
  /// nodes[i] gets position i. The nodes are distinct, below num_nodes, and in any order.
  NodeIndex(std::span<const NodeId> nodes, NodeId num_nodes);

  Count size() const { return static_cast<Count>(nodes_.size()); }
  Count find(NodeId node) const { return view().find(node); }  ///< the node's position, or -1; thread safe
  NodeIndexView view() const {
    return {.shift = shift_,
            .first = first_.data(),
            .nodes = nodes_.data(),
            .positions = positions_.data(),
            .num_buckets = first_.empty() ? 0 : static_cast<Count>(first_.size()) - 1,
            .size = size()};
  }

 private:
  int shift_ = 0;  // there are about as many buckets as nodes
  std::vector<std::uint32_t> first_;
  std::vector<NodeId> nodes_;
  std::vector<std::int32_t> positions_;
};

}  // namespace strata::store
