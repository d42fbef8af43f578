// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/graph/synthetic.hpp"
#include "strata/graph/synthetic_pieces.hpp"

namespace strata::graph {

/// Structure, `undirected`, labels and cleaning of a synthetic graph; the same for every thread count.
void generate_sbm(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool, Graph& graph);
void generate_rmat(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool, Graph& graph);
void generate_lognormal(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool,
                        Graph& graph);
void generate_grid(const SyntheticSpec& spec, ThreadPool& pool, Graph& graph);

}  // namespace strata::graph
