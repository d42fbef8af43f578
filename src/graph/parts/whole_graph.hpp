// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/graph/graph.hpp"
#include "strata/graph/planted.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::graph {

/// Puts parts together again: the graph that they were built from, by original id, with features as the parts
/// store them. Cleaning reports what the parts hold. Throws InputError, IoError, OutOfMemory.
Graph read_whole_graph(const PartsOrigin& origin, ThreadPool& pool);

}  // namespace strata::graph
