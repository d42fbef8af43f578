#pragma once
#include <metis.h>

#include <vector>

#include "strata/partition/compact_graph.hpp"

namespace strata::partition {

/// What METIS reads: every pair of neighbours once in each direction, without self-loops or repetitions.
///
/// Borrows the graph's own indices where they are that already; keep the graph alive.
struct MetisGraph {
  std::vector<idx_t> xadj;       ///< [num_nodes + 1]
  std::vector<idx_t> adjacency;  ///< empty if borrowed
  const idx_t* adjncy = nullptr;

  Count num_entries() const { return xadj.back(); }
};

/// Throws InputError, before anything is allocated, if nodes or entries could exceed METIS's integers.
MetisGraph make_metis_graph(const CompactGraph& graph, ThreadPool& pool);

/// Throws InputError with the remedy if METIS, whose integers are `idx_bits` wide, cannot count so many nodes
/// or entries.
void check_metis_limits(Count num_nodes, Count num_entries, int idx_bits);

}  // namespace strata::partition
