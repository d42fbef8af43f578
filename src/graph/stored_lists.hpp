// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "build_csc.hpp"
#include "strata/graph/stored_graph.hpp"

namespace strata::graph {

struct BuiltLists {
  StoredLists lists;
  CleaningReport cleaning;
  bool symmetric = false;  ///< every edge has its opposite (two sums of hashes agree)
};

/// Does what build_csc() does, but into scratch files: edges are dealt to runs of nodes on disk, and each run
/// is sorted in memory. `options.memory_bytes` has no effect. The result is the same for every number of
/// threads. Throws InputError, IoError if the disk is full, and OutOfMemory if single nodes have so many
/// edges that a run does not fit the buffers.
BuiltLists build_stored_lists(Count num_nodes, const EdgeList& edges, const CscOptions& options,
                              ScratchStore& scratch, ThreadPool& pool);

/// Edges that are computed on demand, each time the same.
struct DrawnEdges {
  using Take = std::function<void(NodeId source, NodeId destination, EdgeId edge)>;

  Count count = 0;
  bool have_ids = true;  ///< false: entry e of the lists is edge e
  Count units = 0;       ///< what draw() counts: edges, or nodes
  /// Several threads may call it at once.
  std::function<void(Count begin, Count end, const Take& take)> draw{};
};
/// The same as build_stored_lists() for drawn edges. REQUIRES: ids of nodes and edges are in range.
BuiltLists build_drawn_lists(Count num_nodes, const DrawnEdges& edges, const CscOptions& options,
                             ScratchStore& scratch, ThreadPool& pool);

}  // namespace strata::graph
