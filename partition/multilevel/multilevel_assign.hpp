// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/partition/build.hpp"

namespace strata::partition {

/// Runs multilevel_parts(), merge_parts() or split_parts() for the neighbors of a graph and the requested
/// constraints. No part is empty.
std::vector<std::int32_t> multilevel_assign(const CompactGraph& graph, const std::vector<NodeId>& train,
                                            const AssignOptions& options, ThreadPool& pool);

/// Runs clusters_of_parts() for the neighbors of a graph.
std::vector<std::int32_t> multilevel_clusters(const CompactGraph& graph,
                                              const std::vector<std::int32_t>& part_of,
                                              const AssignOptions& options, ThreadPool& pool);

}  // namespace strata::partition
