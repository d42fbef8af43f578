#pragma once
#include <vector>

#include "strata/util/types.hpp"

namespace strata::train {

struct NodeRange {
  Count first = 0, count = 0;  ///< local ids of the machine

  Count last() const { return first + count; }
};

/// What a chunk of nodes with all their in-neighbours takes while a layer is applied to it, at most: no two
/// of its edges share a neighbour then.
struct ChunkCost {
  Count node_bytes = 0, edge_bytes = 0;

  Count of(Count nodes, Count edges) const { return nodes * node_bytes + edges * edge_bytes; }
};

struct ChunkLimits {
  Count nodes = 0, bytes = 0;
};

/// Cuts `nodes` into consecutive chunks within the limits, as few as possible; a node that is too large alone
/// is a chunk of its own. indptr counts the edges of all nodes of the machine.
std::vector<NodeRange> cut_nodes(const Count* indptr, const NodeRange& nodes, const ChunkCost& cost,
                                 const ChunkLimits& limits);

}  // namespace strata::train
