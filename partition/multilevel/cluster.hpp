// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "multilevel/level_graph.hpp"

namespace strata::partition {

struct ClusterOptions {
  std::vector<Count> limits;  ///< by constraint: the most that a cluster may weigh
  int rounds = 5;
  std::uint64_t seed = 0;
  const std::vector<std::int32_t>* within =
      nullptr;  ///< nodes of different values stay in different clusters
};

/// Clusters of a graph, numbered from 0 by their lowest nodes.
struct Clusters {
  std::vector<std::int32_t> of_node;
  Count count = 0;
};

/// Size-constrained label propagation (Meyerhenke, Sanders and Schulz 2014) in waves.
///
/// Nodes that find no cluster are joined with others that look for the same one. The same for every number of
/// threads.
Clusters cluster(const LevelGraph& graph, const ClusterOptions& options, ThreadPool& pool);

}  // namespace strata::partition
