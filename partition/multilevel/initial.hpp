// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "assign/metis_kway.hpp"
#include "multilevel/level_graph.hpp"

namespace strata::partition {

/// A partition of a small graph by metis_kway(). Weights that METIS's integers cannot hold are scaled down
/// for it. Parts may exceed their limits. Throws InputError where the graph itself is too large for METIS,
/// and OutOfMemory.
std::vector<std::int32_t> initial_parts(const LevelGraph& graph, const KwayOptions& options);

}  // namespace strata::partition
