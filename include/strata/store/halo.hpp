// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/store/graph_view.hpp"
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

/// Neighbor lists of some nodes of other machines, in host memory. `index` gives a node's position s; its
/// list is the one that `view` has for node view.first_node + s. A view, except for the index.
struct HaloLists {
  NodeIndex index;
  GraphView view;
};

/// A NodeIndex in the memory of a device. An owner.
class DeviceNodeIndex {
 public:
  /// Waits until the copy is complete. Null, or an index without nodes: view() finds none.
  DeviceNodeIndex(const NodeIndex* index, Device device);

  const NodeIndexView& view() const { return view_; }

 private:
  cuda::Array<std::uint32_t> first_;
  cuda::Array<NodeId> nodes_;
  cuda::Array<std::int32_t> positions_;
  NodeIndexView view_;
};

/// Which rank of each machine serves this rank's requests for the machine's nodes.
struct Servers {
  std::span<const NodeId> machine_offsets;  ///< [machines + 1]
  int machine = 0;                          ///< this rank's own
  std::vector<int> rank_of_machine;         ///< world rank, rail-aligned
  int num_ranks = 0;                        ///< of the world
  const NodeIndex* halo = nullptr;          ///< other machines' nodes that this machine keeps a copy of

  static Servers of(const comm::Topology& topology, std::span<const NodeId> machine_offsets, int world_rank);
  NodeId end_of_machine() const { return machine_offsets[static_cast<std::size_t>(machine) + 1]; }
};

/// Divides nodes by who has them, on the host: this machine, its halo, or a rank of another machine. GPUs do
/// it by comm::IdSegments.
///
/// Machines {0..9}, {10..19}; ids {12, 3, -1, 15, 11} on machine 0, whose halo keeps node 15 at position 2:
/// asked() is {0, 4}, both of the rank that serves machine 1, and kept() is {{3, 2}}.
class OwnerSplit {
 public:
  /// -1 names no node. Throws Error for what is neither -1 nor a node.
  void run(std::span<const NodeId> nodes, const Servers& servers);

  /// Indices of the nodes to ask other ranks for, by rank, and of each rank in the order given.
  std::span<const std::int32_t> asked() const { return asked_; }
  std::span<const Count> counts() const { return counts_; }  ///< [ranks] of asked()
  struct Kept {
    std::int32_t index = 0;  ///< of the node
    Count position = 0;      ///< in the halo
  };
  std::span<const Kept> kept() const { return kept_; }

 private:
  std::vector<std::int32_t> rank_of_node_, asked_;
  std::vector<Count> counts_, next_;
  std::vector<Kept> kept_;
};

}  // namespace strata::store
