// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "clean_lists.hpp"
#include "strata/graph/graph.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

/// Edges as the input lists them: edge i goes from sources[i * stride] to destinations[i * stride]. A view.
///
/// A stride of 2 reads pairs, as CSV files and arrays of shape (E, 2) have them.
struct EdgeList {
  const void* sources = nullptr;
  const void* destinations = nullptr;
  Count count = 0;
  Count stride = 1;
  bool wide = true;                ///< ids are i64; false: i32
  std::string origin;              ///< the file, used in messages
  const float* weights = nullptr;  ///< [count], each is_edge_weight(); null: none. build_csc() ignores them
};

struct CscOptions {
  EdgePolicy duplicates = EdgePolicy::remove;
  EdgePolicy self_loops = EdgePolicy::keep;
  bool add_reverse = false;       ///< the list names each undirected edge once (twice is a duplicate)
  std::int64_t memory_bytes = 0;  ///< most that building may take, including the result; 0: what is free
};

/// The lists of in-neighbors, and what cleaning changed.
///
/// All counts are of listed edges, so that always
///
///     structure.num_edges() == edges_read - self_loops_removed - duplicates_removed + reverse_added
///
/// With `add_reverse`, an edge 0-1 that is listed again as 1-0 is a duplicate. A self-loop is its own reverse
/// and is added once. `self_loops` and `duplicates` count what the list has, whatever the policies: a
/// self-loop that is listed twice counts as two self-loops and one duplicate.
struct BuiltCsc {
  CscGraph structure;
  CleaningReport cleaning;
};

/// Sorts an edge list into lists of in-neighbors, each ordered by (source, edge id). The first of several
/// duplicates stays.
///
/// The result is the same for every number of threads. Besides the result it temporarily takes 4 bytes per
/// edge. Each thread also takes 16 bytes per edge of one of about a thousand runs of nodes: a few percent of
/// the edges, unless few nodes have most of them. Throws InputError for an id outside [0, num_nodes), with
/// the edge's number; OutOfMemory before anything large is allocated.
BuiltCsc build_csc(Count num_nodes, const EdgeList& edges, const CscOptions& options, ThreadPool& pool);

/// The number of nodes where the largest id is `largest` (-1: no nodes). Throws InputError with `origin`, the
/// file, for an id that no count can exceed.
Count num_nodes_for(NodeId largest, const std::string& origin);

/// Throws the InputError about an id outside [0, num_nodes).
[[noreturn]] void refuse_id(const EdgeList& edges, Count edge, NodeId source, NodeId destination,
                            Count num_nodes);

/// The report for a list of edges from what their lists of neighbors held before they were cleaned;
/// afterwards they have `num_edges` entries.
CleaningReport report_for(Count edges_read, const ListCounts& met, const CleanPolicies& policies,
                          bool add_reverse, Count num_edges);

/// Whether every edge has its opposite. REQUIRES: lists ordered by source.
bool is_symmetric(const CscGraph& graph, ThreadPool& pool);

}  // namespace strata::graph
