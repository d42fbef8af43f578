// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "multilevel/level_graph.hpp"

namespace strata::partition {

/// Renumbers groups of nodes, of [0, num_groups), so that those with near numbers tend to share edges:
/// halves, quarters and so on of the numbers are connected by as few edges as a bisection finds. Numbers
/// without nodes stay possible. The same for every number of threads.
void number_by_nearness(const LevelGraph& graph, int num_groups, std::uint64_t seed, ThreadPool& pool,
                        std::vector<std::int32_t>& group_of);

}  // namespace strata::partition
