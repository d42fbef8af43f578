// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/graph/source.hpp"
#include "strata/util/scratch.hpp"
#include "strata/util/threads.hpp"

namespace strata::graph {

/// A CscGraph whose lists lie in scratch files; memory holds only `indptr`. Ids have 32 bits if they fit.
struct StoredLists {
  std::vector<Count> indptr;  ///< [num_nodes + 1]
  IdSpan indices{};           ///< [num_edges]
  IdSpan edge_ids{};          ///< [num_edges], or empty: entry e of `indices` is edge e
  ScratchArray<float> weights{};
  std::shared_ptr<const void> indices_memory{}, edge_ids_memory{};  ///< keep the views valid

  Count num_nodes() const { return static_cast<Count>(indptr.size()) - 1; }
  Count num_edges() const { return indptr.back(); }
};

/// A graph that may be too large for memory. With `lists`, its `structure` has only the number of nodes.
struct StoredGraph {
  Graph graph;
  std::optional<StoredLists> lists{};
};

/// The lists of a graph, wherever they lie. A view.
struct ListsView {
  Count num_nodes = 0;
  std::span<const Count> indptr{};  ///< [num_nodes + 1]
  IdSpan indices{};
  IdSpan edge_ids{};                 ///< empty: entry e is edge e
  std::span<const float> weights{};  ///< empty: none
  ScratchStore* scratch = nullptr;   ///< null: all is in memory

  Count num_edges() const { return indices.size; }
  /// Keeps the page cache small; call it between two pieces of a scan. Does nothing without `scratch`.
  void release_pages() const {
    if (scratch != nullptr) scratch->trim();
  }
};
ListsView lists_of(const CscGraph& graph);
ListsView lists_of(const StoredLists& lists, ScratchStore& scratch);

/// Reads a graph as read_graph() does, but edges, their weights and features go from their files to scratch
/// files, or stay in files that are mapped. The result has `lists`.
StoredGraph read_stored_graph(const Source& source, const ReadOptions& options, const NodeFiles& files,
                              ScratchStore& scratch);

/// Every pair of neighbors once in each direction, without self-loops; ids have 32 bits. REQUIRES: fewer than
/// 2^31 nodes.
StoredLists neighbors_of(std::span<const Count> indptr, IdSpan indices, ScratchStore& scratch,
                         ThreadPool& pool);
/// The same for lists in which every edge has its opposite, in one scan. REQUIRES: each list is ascending.
StoredLists neighbors_of_symmetric(std::span<const Count> indptr, const std::int32_t* indices,
                                   ScratchStore& scratch, ThreadPool& pool);

/// The size of an input as known before it is read; upper bounds where files do not state them.
struct InputSize {
  Count nodes = 0;  ///< 0: not known
  /// The file and field that state `nodes`, which may be wrong; empty: files have them.
  std::string nodes_from = {};
  Count edges = 0;  ///< as listed
  int node_weight_kinds = 0;
  std::int64_t bytes_in_memory = 0;  ///< that reading holds even if edges go to scratch files
  std::int64_t bytes_of_edges = 0;   ///< that reading holds beside the lists if they do not: weights, copies
  std::int64_t bytes_mapped = 0;     ///< of features that are read in place, or go to scratch files
  std::int64_t least_scratch_bytes = 0;  ///< that scratch files take if edges go there; 0: not known before
};

/// Measures an input by headers and file sizes only. Files that cannot be read count nothing; reading refuses
/// them.
InputSize measure_input(const Source& source, const NodeFiles& files = {});

}  // namespace strata::graph
