// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/util/threads.hpp"

namespace strata::sampling {

/// Finds the distinct nodes among neighbors and numbers them, in host memory.
///
/// One bit per node of the graph says that it was met, another that it has a local id. A node that was met
/// and has no local id is new; walking the bits yields new nodes in ascending order. An array over all nodes
/// holds their local ids; it is never cleared. Blocks of 4096 nodes are walked and cleared only if one of
/// their bits was set.
template <typename Id>
class Compactor {
 public:
  Compactor(Count num_nodes, ThreadPool& pool);

  /// Forgets everything; seed i gets the local id i. Throws InputError for a seed that is no node or repeats.
  void start(std::span<const NodeId> seeds);

  /// Appends the nodes of `neighbors` that have no local id yet to nodes[num_known..], in ascending order,
  /// and numbers them in this order. Returns how many nodes have a local id now. REQUIRES: room for
  /// min(num_nodes, num_known + num_edges) nodes.
  Count extend(const Id* neighbors, Count num_edges, NodeId* nodes, Count num_known);

  /// Writes all nodes that have a local id, in ascending order, and their local ids. REQUIRES: room for them.
  void sort(NodeId* nodes, std::int32_t* local_ids);

  /// Sets local_ids[e] to the local id of neighbors[e]. Both may be the same memory.
  void relabel(const Id* neighbors, Count num_edges, std::int32_t* local_ids) const;

 private:
  void mark(const Id* neighbors, Count begin, Count end);
  template <typename Visitor>
  void visit_words(Count first_block, Count last_block, Visitor&& visitor) const;
  template <typename Bits>
  Count offset_pieces(Count first, const Bits& bits_of);
  void number_new(Count first_block, Count last_block, NodeId* nodes, Count local_id);

  ThreadPool& pool_;
  Count num_blocks_;
  std::vector<std::uint64_t> met_, known_;  // [num_blocks * kBlockWords]
  std::vector<std::uint8_t> touched_;       // [num_blocks]
  std::vector<Count> piece_counts_;
  cuda::Array<std::int32_t> local_ids_;  // [num_nodes]
};

}  // namespace strata::sampling
