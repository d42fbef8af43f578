// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "build_csc.hpp"
#include "strata/graph/dataset_source.hpp"
#include "strata/graph/graph.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::graph {

/// One reader per format; read_graph() has the contracts, and calls finish_graph() on the result.
Graph read_ogb(const DatasetSource& source, const ReadOptions& options, ThreadPool& pool);
Graph read_graphbolt(const DatasetSource& source, const ReadOptions& options, ThreadPool& pool);
Graph read_npy_folder(const DatasetSource& source, const ReadOptions& options, ThreadPool& pool);
Graph read_edge_list(const DatasetSource& source, const ReadOptions& options, ThreadPool& pool);
Graph read_metis(const DatasetSource& source, const ReadOptions& options, ThreadPool& pool);
Graph read_igb(const DatasetSource& source, const ReadOptions& options, ThreadPool& pool);
Graph read_dgl_chunked(const DatasetSource& source, const ReadOptions& options, ThreadPool& pool);
Graph read_matrix_market(const DatasetSource& source, const ReadOptions& options, ThreadPool& pool);

/// Gives the graph its structure: the lists of in-neighbors, what cleaning changed, and whether every edge
/// has its opposite. Edges are added in both directions with `add_reverse`.
void build_structure(Graph& graph, Count num_nodes, const EdgeList& edges, const ReadOptions& options,
                     bool add_reverse, ThreadPool& pool);

/// Sorts the splits and checks them for bad ids, repetitions and overlaps. Checks labels against the numbers
/// of nodes and classes. Scales feature rows if `options` say so.
///
/// If num_classes is 0, it becomes the largest label + 1. `origin` names the dataset in messages. Warns of
/// what is probably a mistake. Throws InputError.
void finish_graph(Graph& graph, const std::string& origin, const ReadOptions& options, ThreadPool& pool);

}  // namespace strata::graph
