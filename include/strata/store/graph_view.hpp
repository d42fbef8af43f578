// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/store/adjacency_cache_view.hpp"
#include "strata/tensor/array_strata.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

/// The structure that a sampler reads; a view for kernels and loops. `device` can read all of it.
///
/// The nodes whose lists are here have the global ids [first_node, first_node + num_local). `indptr` has one
/// entry for each of them and one more; its values are positions in `indices`. `original_ids` and
/// `in_degrees` cover ALL nodes of the graph, so that choices for remote nodes can be keyed, and GCN can be
/// normalised, without asking the nodes' owners.
///
/// If `device` is a GPU, some elements of `indptr` and some lists may have copies in the memory of GPUs.
/// element() finds the former, position_of_list() and entry() the latter; the arrays are complete all the
/// same.
struct GraphView {
  Device device;
  Count num_nodes = 0;  ///< of the whole graph
  NodeId first_node = 0;
  Count num_local = 0;
  const Count* indptr = nullptr;             ///< [num_local + 1]
  IdSpan indices;                            ///< [edges with a list here] global ids
  IdSpan edge_ids;                           ///< [local edges], or size 0 if not loaded
  const float* weights = nullptr;            ///< [local edges], or null if not loaded
  IdSpan original_ids;                       ///< [num_nodes]
  const std::int32_t* in_degrees = nullptr;  ///< [num_nodes], or null if not loaded

  struct Copies {
    tensor::ArrayStrata indptr;
    AdjacencyCacheView lists;
    CachedEntries indices, edge_ids, weights;
  };
  Copies copies = {};

  bool owns(NodeId global) const { return global >= first_node && global < first_node + num_local; }
};

}  // namespace strata::store
