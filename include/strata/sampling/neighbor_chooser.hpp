// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// Who gets neighbors at one hop, and with which randomness.
struct PickQuery {
  /// Global ids; one of another machine gets no neighbors here. What several ranks ask for at once may
  /// repeat: every occurrence of a node gets the same neighbors.
  std::span<const NodeId> nodes;
  int fanout = 0;  ///< -1: as many as there are
  BatchKey key;
  std::uint32_t hop = 0;  ///< counted from the seeds
};

/// Neighbors of a list of nodes, packed in its order.
///
///     nodes {7, 3} with neighbors 7 <- {3, 9}, 3 <- {5}:   counts {2, 1}   neighbors {3, 9, 5}
struct ChosenNeighbors {
  std::vector<Count> counts;      ///< [nodes]
  std::vector<NodeId> neighbors;  ///< global ids of any nodes of the graph
  std::vector<EdgeId> edge_ids;   ///< as many as neighbors, if the sampler was asked for edge ids
};

/// A sampler of a user's own: which neighbors a frontier gets. See SamplerOptions::chooser.
///
/// To keep what training promises (the same batches whatever the ranks, machines and parts), a choice may
/// depend on the query's key and hop and on original ids, never on who asks or when; strata/util/random.hpp
/// has keyed randomness. For nodes of other machines their owners are asked, with the same key.
class NeighborChooser {
 public:
  virtual ~NeighborChooser() = default;
  /// Fills `out`, which may hold an earlier hop's neighbors. Called by one thread at a time. What it throws
  /// ends the run.
  virtual void choose(const PickQuery& query, ChosenNeighbors& out) = 0;
};

}  // namespace strata::sampling
