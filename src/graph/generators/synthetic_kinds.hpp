// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "readers/assemble.hpp"
#include "stored_lists.hpp"
#include "strata/graph/synthetic.hpp"

namespace strata::graph {

/// Does generate() into an assembly: with scratch files, edges, their weights and features go there.
Graph generate(const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly);

/// Each function sets the structure or the lists of `assembly`, `undirected`, labels and cleaning of `graph`;
/// the same for every number of threads.
void generate_sbm(const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly, Graph& graph);
void generate_rmat(const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly, Graph& graph);
void generate_lognormal(const SyntheticSpec& spec, const ReadOptions& options, Assembly& assembly,
                        Graph& graph);
void generate_grid(const SyntheticSpec& spec, Assembly& assembly, Graph& graph);

/// Gives the graph the structure of edges that are drawn into scratch files. Sets `undirected` and cleaning.
void build_structure(Graph& graph, const DrawnEdges& edges, const ReadOptions& options, bool add_reverse,
                     Assembly& assembly);

}  // namespace strata::graph
