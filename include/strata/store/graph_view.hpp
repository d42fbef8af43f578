// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "strata/tensor/array_copies.hpp"
#include "strata/util/types.hpp"

/// Copies of chosen neighbor lists in the memory of GPUs, for host and device code.
namespace strata::store {

/// Which neighbor lists have a copy on GPUs, and at which positions one GPU reads them. A view, passed to
/// kernels by value.
///
/// The copies are packed in the order of their nodes: first those that every GPU has, then the striped ones.
/// Their positions continue those of the arrays, so that one position finds an edge in `indices`, `edge_ids`
/// and `weights` alike. A graph of 14 edges, with the lists of nodes 1 and 3 on every GPU and that of node 0
/// striped:
///
///     node               0       1       2       3
///     lies at           0-2     3-7     8-9    10-13
///     is read at       23-25   14-18    8-9    19-22     first_replicated = 14, first_striped = 23
struct AdjacencyCacheView {
  /// One word per kGroupNodes consecutive nodes. Its lowest kGroupNodes bits say which of their lists have a
  /// copy; the bits above count the entries of all copies before theirs.
  using Group = std::uint64_t;
  static constexpr int kGroupNodes = 16;
  static constexpr Count num_groups(Count num_nodes) { return (num_nodes + kGroupNodes - 1) / kGroupNodes; }
  static constexpr std::int64_t bytes(Count num_nodes) {  ///< of the words of one stratum
    return num_groups(num_nodes) * std::int64_t{sizeof(Group)};
  }

  const Group* replicated = nullptr;  ///< [num_groups], as is `striped`; null: none
  const Group* striped = nullptr;
  Count first_replicated = 0, first_striped = 0;
};

/// Index of the lowest set bit. REQUIRES: word != 0.
STRATA_HOST_DEVICE inline int lowest_bit(unsigned word) {
#ifdef __CUDA_ARCH__
  return __ffs(static_cast<int>(word)) - 1;
#else
  return std::countr_zero(word);
#endif
}

/// Position of the copy of a node's list, or -1 if it has none. The copies that `groups` describe begin at
/// `first`. The entries before it in its group are counted from the borders of runs of copied lists.
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <typename Indptr>
STRATA_HOST_DEVICE Count position_of_copy(const AdjacencyCacheView::Group* groups, Count first,
                                          const Indptr& indptr, Count node) {
  const Count group = node / AdjacencyCacheView::kGroupNodes,
              first_node = group * AdjacencyCacheView::kGroupNodes;
  const auto own = static_cast<unsigned>(node - first_node);
  const AdjacencyCacheView::Group word = groups[group];
  if ((word >> own & 1) == 0) return -1;
  Count position = first + static_cast<Count>(word >> AdjacencyCacheView::kGroupNodes);
  const unsigned below = static_cast<unsigned>(word) & ((1u << own) - 1);
  for (unsigned borders = below ^ (below << 1); borders != 0; borders &= borders - 1) {
    const int at = lowest_bit(borders);
    const Count border = indptr[first_node + at];
    position += (below >> at & 1) != 0 ? -border : border;
  }
  return position;
}

/// The position from which a node's list is read: that of its copy, or `begin` = indptr[node] if it has none.
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <typename Indptr>
STRATA_HOST_DEVICE Count position_of_list(const AdjacencyCacheView& copies, const Indptr& indptr, Count node,
                                          Count begin) {
  Count position = -1;
  if (copies.replicated != nullptr)
    position = position_of_copy(copies.replicated, copies.first_replicated, indptr, node);
  if (position < 0 && copies.striped != nullptr)
    position = position_of_copy(copies.striped, copies.first_striped, indptr, node);
  return position < 0 ? begin : position;
}

/// Copies of the entries of one array, as one GPU reads them. A view, passed to kernels by value.
struct CachedEntries {
  /// Position of the first copy; the maximum if there are no copies.
  Count first = std::numeric_limits<Count>::max();
  Count num_replicated = 0;
  const void* replicated = nullptr;  ///< on this GPU
  std::array<const void*, tensor::kMaxStripeGpus> stripe_data{};
  tensor::Stripes stripes;

  bool any() const { return first < std::numeric_limits<Count>::max(); }
};

/// Address of the entry at a position: in `array`, or in a copy.
template <typename T>
STRATA_HOST_DEVICE const T* entry(const T* array, const CachedEntries& copies, Count position) {
  const Count copy = position - copies.first;
  if (copy < 0) return array + position;
  if (copy < copies.num_replicated) return static_cast<const T*>(copies.replicated) + copy;
  const tensor::StripeLocation at = locate_stripe(copy - copies.num_replicated, copies.stripes);
  return static_cast<const T*>(copies.stripe_data[static_cast<std::size_t>(at.gpu)]) + at.row;
}

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

/// Where the neighbors over each relation lie; a view of graph::Sublists, for the nodes that have lists here.
struct SublistsView {
  Count count = 0;
  Count most_per_node = 0;
  int num_relations = 1;
  std::int32_t lists_before = 0;          ///< of nodes before the view's first; `nodes` counts from these
  const Count* first = nullptr;           ///< [num_local + 1] each node's first sublist; null: one relation
  const Count* begins = nullptr;          ///< [count + 1] positions in `indices`
  const std::int32_t* nodes = nullptr;    ///< [count] the node
  const RelationId* relations = nullptr;  ///< [count]
};

/// What keys the choices from a list. If lists are those of nodes, the node and Relation::number; in a view
/// whose lists are sublists (sampling/choosers/sublists.hpp), their node and relation.
struct ListKeys {
  const std::int32_t* nodes = nullptr;  ///< null: lists are those of nodes
  const RelationId* relations = nullptr;
  NodeId first_node = 0;
  const std::uint8_t* groups = nullptr;  ///< by relation; lists of other groups than `group` are empty
  std::uint8_t group = 0;

  STRATA_HOST_DEVICE NodeId node_of(NodeId list) const {
    return nodes == nullptr ? list : first_node + nodes[list];
  }
  STRATA_HOST_DEVICE RelationId relation_of(NodeId list, RelationId number) const {
    return nodes == nullptr ? number : relations[list];
  }
  STRATA_HOST_DEVICE bool takes(NodeId list) const {
    return nodes == nullptr || groups[relations[list]] == group;
  }
};

/// The edges of one relation over a node space: the in-neighbors of the nodes that the machine owns; a view.
///
/// `indptr` has one entry for each of these nodes and one more; its values are positions in `indices`. If the
/// device is a GPU, some elements of `indptr` and some lists may have copies in the memory of GPUs. element()
/// finds the former, position_of_list() and entry() the latter; the arrays are complete all the same.
struct Relation {
  RelationId number = 0;           ///< among the relations of the graph; it enters the keys of random choices
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
  SublistsView sublists = {};
  ListKeys keys = {};
};

/// What a sampler reads: a relation, and the nodes that it is over; a view for kernels and loops.
struct GraphView : NodeSpace, Relation {};

}  // namespace strata::store
