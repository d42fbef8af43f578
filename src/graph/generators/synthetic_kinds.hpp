// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/graph/synthetic.hpp"
#include "strata/graph/synthetic_pieces.hpp"

namespace strata::graph {

/// Each sets the structure, `undirected`, labels and cleaning of `graph`; the same for every number of
/// threads.
void generate_sbm(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool, Graph& graph);
void generate_rmat(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool, Graph& graph);
void generate_lognormal(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool,
                        Graph& graph);
void generate_grid(const SyntheticSpec& spec, ThreadPool& pool, Graph& graph);

}  // namespace strata::graph
