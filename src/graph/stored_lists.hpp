// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>
#include <string>

#include "build_csc.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/util/ranges.hpp"

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

/// The edges of one of several relations. Both ends are counted within their types.
struct RelationEdges {
  const EdgeList* list = nullptr;
  Range sources, destinations;  ///< the nodes of the two types
  EdgeId first_edge = 0;
  std::string source_type, destination_type;

  bool within_a_type() const { return source_type == destination_type; }
  bool may_join(NodeId source, NodeId destination) const {
    return source >= 0 && source < sources.count && destination >= 0 && destination < destinations.count;
  }
};
/// Throws the InputError about ends that the relation may not join.
[[noreturn]] void refuse_ends(const RelationEdges& relation, Count edge, NodeId source, NodeId destination);

/// The same as build_stored_lists() for several relations: each list is ordered by (relation, source, edge
/// id), and duplicates are those of a relation. REQUIRES: a relation.
BuiltLists build_stored_lists(Count num_nodes, std::span<const RelationEdges> relations,
                              const CscOptions& options, ScratchStore& scratch, ThreadPool& pool);

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
