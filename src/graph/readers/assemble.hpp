// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "build_csc.hpp"
#include "strata/graph/graph.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/util/threads.hpp"

namespace strata::graph {

/// The workplace of a reader. With `scratch`, the lists of the graph go to scratch files instead of its
/// `structure`.
struct Assembly {
  ThreadPool& pool;
  ScratchStore* scratch = nullptr;
  StoredLists lists = {};  ///< with `scratch`, after build_structure()
  /// The types of nodes that have labels or splits, in a graph of several types. Files about nodes need one.
  std::vector<std::size_t> targets = {};
};

/// One reader per format; read_graph() has the contracts, and calls finish_graph() on the result.
Graph read_ogb(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_graphbolt(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_npy_folder(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
/// The same of a set whose raw/triplet-type-list names relations.
Graph read_typed_ogb(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
/// The same of a folder with nodes/TYPE and edges/SOURCE__NAME__DESTINATION.
Graph read_typed_npy(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_edge_list(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_metis(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_igb(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_dgl_chunked(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_parquet(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_matrix_market(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_n_triples(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_triples(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);
Graph read_igbh(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);

/// Gives the graph its structure: the lists of in-neighbors with the weights of their edges, what cleaning
/// changed, and whether every edge has its opposite. Edges are added in both directions with `add_reverse`.
void build_structure(Graph& graph, Count num_nodes, const EdgeList& edges, const ReadOptions& options,
                     bool add_reverse, Assembly& assembly);

/// Sorts the splits and checks them for bad ids, repetitions and overlaps. Checks labels against the numbers
/// of nodes and classes. Scales feature rows if `options` say so.
///
/// If num_classes is 0, it becomes the largest label + 1. `origin` names the dataset in messages. Throws
/// InputError.
void finish_graph(Graph& graph, const std::string& origin, const ReadOptions& options, ThreadPool& pool,
                  ScratchStore* scratch = nullptr);

/// Logs warnings about a finished graph.
void warn_of_probable_mistakes(const Graph& graph, const std::string& origin);

}  // namespace strata::graph
