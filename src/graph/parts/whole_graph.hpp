// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "readers/assemble.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/synthetic.hpp"

namespace strata::graph {

/// Puts parts together again: the graph that they were built from, by original id, with features as the parts
/// store them. With assembly.scratch, lists and features go to scratch files. Cleaning reports what the parts
/// hold. Throws InputError, IoError, OutOfMemory.
Graph read_whole_graph(const PartsOrigin& origin, Assembly& assembly);

}  // namespace strata::graph
