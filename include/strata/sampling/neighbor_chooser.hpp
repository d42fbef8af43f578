// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// The nodes that get neighbors at one hop, and the key of their random choices.
struct PickQuery {
  /// Global ids. A node of another machine gets no neighbors here. A node may occur several times, because
  /// several ranks ask at once; every occurrence gets the same neighbors.
  std::span<const NodeId> nodes;
  int fanout = 0;  ///< -1: all neighbors
  BatchKey key;
  std::uint32_t hop = 0;  ///< counted from the seeds
};

/// The neighbors of a list of nodes, packed in the order of the list.
///
///     nodes {7, 3} with neighbors 7 <- {3, 9}, 3 <- {5}:   counts {2, 1}   neighbors {3, 9, 5}
struct ChosenNeighbors {
  std::vector<Count> counts;      ///< [nodes]
  std::vector<NodeId> neighbors;  ///< global ids of any nodes of the graph
  std::vector<EdgeId> edge_ids;   ///< one per neighbor if the sampler was asked for edge ids, else empty
};

/// Decides which neighbors a frontier gets; derive from it for a sampler of your own. See
/// SamplerOptions::chooser.
///
/// Training promises the same batches for every number of ranks, machines and parts. A choice may therefore
/// depend on the query's key and hop and on original ids, but never on the asking rank or the time;
/// strata/util/random.hpp has keyed randomness. The owners of remote nodes choose for them, with the same
/// key.
class NeighborChooser {
 public:
  virtual ~NeighborChooser() = default;
  /// Fills `out`, which may still hold the neighbors of an earlier hop. Called by one thread at a time. An
  /// exception ends the run.
  virtual void choose(const PickQuery& query, ChosenNeighbors& out) = 0;
};

}  // namespace strata::sampling
