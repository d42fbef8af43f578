// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/store/adjacency_cache_view.hpp"
#include "strata/tensor/array_strata.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

/// The nodes of a graph, as one machine sees them; a view. `device` can read all of it.
///
/// All nodes share one space of global ids. The machine owns [first_node, first_node + num_local). The arrays
/// cover ALL nodes of the graph, so that choices for remote nodes can be keyed, and GCN can be normalized,
/// without asking the nodes' owners.
struct NodeSpace {
  Device device;
  Count num_nodes = 0;  ///< of the whole graph
  NodeId first_node = 0;
  Count num_local = 0;
  IdSpan original_ids;                       ///< [num_nodes]; the ids of a type of nodes are a range of them
  const std::int32_t* in_degrees = nullptr;  ///< [num_nodes], or null if not loaded

  bool owns(NodeId global) const { return global >= first_node && global < first_node + num_local; }
};

/// The edges of one relation over a node space: the in-neighbors of the nodes that the machine owns; a view.
///
/// `indptr` has one entry for each of these nodes and one more; its values are positions in `indices`. If the
/// device is a GPU, some elements of `indptr` and some lists may have copies in the memory of GPUs. element()
/// finds the former, position_of_list() and entry() the latter; the arrays are complete all the same.
struct Relation {
  std::uint16_t number = 0;        ///< among the relations of the graph; it enters the keys of random choices
  const Count* indptr = nullptr;   ///< [num_local + 1]
  IdSpan indices;                  ///< [edges with a list here] global ids
  IdSpan edge_ids;                 ///< [edges with a list here], or size 0 if not loaded
  const float* weights = nullptr;  ///< [edges with a list here], or null if not loaded

  struct Copies {
    tensor::ArrayStrata indptr;
    AdjacencyCacheView lists;
    CachedEntries indices, edge_ids, weights;
  };
  Copies copies = {};
};

/// What a sampler reads: a relation, and the nodes that it is over; a view for kernels and loops.
struct GraphView : NodeSpace, Relation {};

}  // namespace strata::store
