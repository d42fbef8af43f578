// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <metis.h>

#include <vector>

#include "assign/neighbor_lists.hpp"

namespace strata::partition {

/// A graph as METIS reads it: every pair of neighbors once in each direction, no self-loops or repetitions.
///
/// Borrows the graph's own indices if they already have this form; the graph must then stay alive.
struct MetisGraph {
  NeighborLists lists;
  std::vector<idx_t> xadj;      ///< [num_nodes + 1]
  std::vector<idx_t> wide_ids;  ///< copies of the lists' ids, where idx_t has 64 bits
  const idx_t* adjncy = nullptr;

  Count num_entries() const { return xadj.back(); }
};

/// Throws InputError, before anything is allocated, if nodes or entries could exceed METIS's integers.
MetisGraph make_metis_graph(const CompactGraph& graph, ThreadPool& pool);

/// The sizes of METIS's input; 0 if not known yet.
struct MetisSize {
  Count nodes = 0;
  Count entries = 0;         ///< of adjncy, which has each pair of neighbors twice
  Count most_neighbors = 0;  ///< of a node
  Count weight = 0;          ///< of all nodes together, under one constraint
  double imbalance = 0;      ///< a part may be this much above the mean
};

/// Throws InputError with the remedy if METIS, whose integers are `idx_bits` wide, would overflow: it
/// multiplies all of these before it allocates or compares (METIS 5.1 and 5.2).
void check_metis_limits(const MetisSize& size, int idx_bits);

}  // namespace strata::partition
