// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "multilevel/cluster.hpp"

namespace strata::partition {

/// The graph whose nodes are the clusters; weights of nodes and of parallel edges add up. The same for every
/// number of threads.
LevelGraph contract(const LevelGraph& graph, const Clusters& clusters, ThreadPool& pool);

}  // namespace strata::partition
