// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "multilevel/level_graph.hpp"

namespace strata::partition {

struct ClusterOptions {
  std::vector<Count> limits;  ///< by constraint: the most that a cluster may weigh
  int rounds = 5;
  std::uint64_t seed = 0;
  /// Nodes of different values stay in different clusters.
  const std::vector<std::int32_t>* within = nullptr;
};

/// Clusters of a graph, numbered from 0 by their lowest nodes.
struct Clusters {
  std::vector<std::int32_t> of_node;
  Count count = 0;
};

/// The result of label propagation.
struct Labels {
  std::vector<std::int32_t> label;     ///< of each node: the number of a node
  std::vector<std::int32_t> favorite;  ///< another label that most weight led to, with or without room, or -1
  std::vector<Count> load;             ///< [label][constraint]: what its nodes weigh
};

/// Size-constrained label propagation (Meyerhenke, Sanders and Schulz 2014) in waves. The same for every
/// number of threads.
Labels propagate(const LevelGraph& graph, const ClusterOptions& options, ThreadPool& pool);

/// Whether a round with so few moves was the last.
inline bool has_settled(const LevelGraph& graph, Count moves) { return moves < graph.num_nodes / 100; }

/// The key of a round's order of nodes.
std::uint64_t key_of_round(const ClusterOptions& options, int round);

/// Clusters by labels. Nodes that found no cluster are joined with others that favor the same one.
Clusters clusters_of(const LevelGraph& graph, const ClusterOptions& options, Labels labels);

/// Propagates labels and makes clusters of them.
Clusters cluster(const LevelGraph& graph, const ClusterOptions& options, ThreadPool& pool);

}  // namespace strata::partition
