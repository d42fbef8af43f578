// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "graph_regions.hpp"
#include "strata/graph/graph.hpp"

namespace strata::store {

/// Writes edges that no list has to the regions. For the first rank of a machine. REQUIRES: the regions have
/// as many.
void write_held_edges(const graph::EdgeSplits& edges, const GraphRegions& regions);

}  // namespace strata::store
