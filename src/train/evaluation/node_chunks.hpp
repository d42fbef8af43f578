// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "evaluation/node_set.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::train {

/// A run of the nodes that a layer is applied to, with their whole lists of in-neighbors; or one node with a
/// piece of its list.
struct NodeChunk {
  NodeId first = 0;     ///< global id
  Count first_row = 0;  ///< in the machine's table of the layer's output
  Count count = 0;

  struct Piece {
    Count begin = 0, end = 0;  ///< entries of the list
    bool last = false;         ///< the list ends with it
  };
  std::optional<Piece> piece = {};  ///< none: whole lists. The pieces of a list follow each other
};

/// The most memory that a chunk of nodes with all their in-neighbors takes while a layer is applied to it,
/// which is if no two edges share a neighbor.
struct ChunkCost {
  Count node_bytes = 0, edge_bytes = 0;

  Count of(Count nodes, Count edges) const { return nodes * node_bytes + edges * edge_bytes; }
};

struct ChunkLimits {
  Count nodes = 0, bytes = 0;
  bool splits_lists = false;  ///< a node that is too large for `bytes` comes in pieces

  static constexpr Count kLeastPiece = 16;  ///< entries, whatever `bytes` says
};

/// The nodes of a machine that a layer is applied to: all of them, or the members of a set. A view.
class LayerNodes {
 public:
  /// `set` is null for all nodes; offsets are those of the machines' nodes, [machines + 1].
  LayerNodes(const store::GraphView& graph, const NodeSet* set, std::span<const NodeId> machine_offsets)
      : graph_(&graph), set_(set), machine_offsets_(machine_offsets) {}

  const NodeSet* set() const { return set_; }
  Count rows() const;                           ///< in this machine's table of the layer's output
  std::vector<NodeId> machine_offsets() const;  ///< in rows of all machines' tables
  /// Part `part` of `parts` of the machine's nodes, cut into consecutive chunks within the limits, as few as
  /// possible; a node that exceeds the limits is a chunk of its own, or several chunks with pieces of its
  /// list.
  std::vector<NodeChunk> cut(int part, int parts, const ChunkCost& cost, const ChunkLimits& limits) const;
  void list(const NodeChunk& chunk, std::vector<NodeId>& global_ids) const;

 private:
  Count first_rank() const { return set_ == nullptr ? 0 : set_->rank(graph_->first_node); }

  const store::GraphView* graph_;
  const NodeSet* set_;
  std::span<const NodeId> machine_offsets_;
};

}  // namespace strata::train
