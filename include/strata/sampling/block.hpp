// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// One layer's bipartite sample (MFG): messages flow from src to dst nodes. A view of the sampler's memory,
/// which lies on `device`. The host must not read a GPU's memory.
///
/// src_nodes begin with dst_nodes; the hop's new nodes follow, in ascending order of their ids. A node's
/// local id is its position among the src nodes.
///
///     dst_nodes {7, 3}; sampled in-neighbors 7 <- {3, 9}, 3 <- {5}
///     src_nodes {7, 3, 5, 9}   indptr {0, 2, 3}   indices {1, 3, 2}
///
/// The in-edges of dst node i are entries [indptr[i], indptr[i + 1]) of `indices` and `edge_ids`. If the
/// sampler was asked for a stride (`stride` > 0, indptr null), each dst node has `stride` entries, from i *
/// stride on: the first counts[i] are its in-edges, the others are -1. The same example with stride 3:
///
///     counts {2, 1}   indices {1, 3, -1, 2, -1, -1}
struct Block {
  Device device;
  Count num_dst = 0, num_src = 0, num_edges = 0;
  const Count* indptr = nullptr;          ///< [num_dst + 1], or null with a stride
  const std::int32_t* indices = nullptr;  ///< [num_edges or num_dst * stride] local ids of src nodes
  const EdgeId* edge_ids = nullptr;       ///< set where `indices` has an edge; null if not asked for
  /// How much each edge of a packed list counts: 1 on average over the edges of a dst node; 0 is like no
  /// edge. Null: each edge counts once. Samplers leave it null, because they choose by weight. Exact
  /// evaluation sets it, outside training (nn::ModelTraits::takes_edge_weights).
  const float* edge_weights = nullptr;
  int stride = 0;                        ///< entries per dst node; 0: packed lists
  const std::int32_t* counts = nullptr;  ///< [num_dst], with a stride only
  /// Set in the input layer of a sampler that does not compact its inputs: `indices` are then GLOBAL ids, and
  /// src_nodes are only the dst nodes.
  bool global_indices = false;

  /// The transpose, if asked for: the out-edges of each src node, as ascending local ids of dst nodes. With
  /// it backward passes sum without atomics, in an order that is always the same.
  const Count* transposed_indptr = nullptr;          ///< [num_src + 1]
  const std::int32_t* transposed_indices = nullptr;  ///< [num_edges]

  const NodeId* src_nodes = nullptr;         ///< [num_src] global ids
  const NodeId* src_original_ids = nullptr;  ///< [num_src]
  /// [num_src] in-degrees in the whole graph, or null if not asked for.
  const std::int32_t* src_in_degrees = nullptr;

  /// Compares sizes and addresses. Work that was recorded with one block can be replayed only for a block
  /// that equals it; a sampler may move the memory of a buffer set whenever a batch needs more of it.
  bool operator==(const Block&) const = default;
};

/// A sampled minibatch. blocks.front() is the input layer; blocks.back() has the seeds as dst nodes. A view:
/// the memory belongs to a buffer set of the sampler, which reuses it (MiniBatchSampler::enqueue).
struct MiniBatch {
  std::vector<Block> blocks;
  Count num_seeds = 0;
  /// False: the arrays end with the batch, because it was sampled by other means than batches of one shape.
  bool can_be_padded = true;
  /// The sizes, on the device, for work that does not wait for the host: first the nodes known before hop 0,
  /// after hop 0 and so on, [hops + 1]; then the edges of each hop, [hops]. Null on the cpu.
  const Count* device_counts = nullptr;
  const BatchKey* device_key = nullptr;  ///< what the batch was sampled with, on the device; null on the cpu

  /// The input nodes in ascending order, which is the order of (owner, row), and their positions in
  /// input_nodes(); null if not asked for. If the sampler's pad() was called, padded nodes follow, as they do
  /// in input_nodes().
  ///
  ///     input nodes {7, 3, 5, 9}   sorted_inputs {3, 5, 7, 9}   sorted_positions {1, 2, 0, 3}
  const NodeId* sorted_inputs = nullptr;
  const std::int32_t* sorted_positions = nullptr;

  const NodeId* input_nodes() const { return blocks.front().src_nodes; }
  Count num_inputs() const { return blocks.front().num_src; }
  Count num_edges() const {
    Count sum = 0;
    for (const Block& b : blocks) sum += b.num_edges;
    return sum;
  }
};

/// The sizes to which batches are padded, so that all have the same shape: at least the sizes of every such
/// batch.
struct PaddedShape {
  std::vector<Count> nodes;    ///< [hops + 1] nodes known before hop 0, after hop 0 and so on...
  std::vector<Count> entries;  ///< [hops] of `indices`
  /// [hops] nodes that a rank asks another machine for; the same on all ranks. Empty without an exchange.
  std::vector<Count> requests = {};
  /// [hops] picks of these nodes, where a node may have more of them than the fanout: over several relations.
  std::vector<Count> answers = {};
};

/// Pads a batch of a GPU sampler to the shape. Returns false and changes nothing if the batch does not fit,
/// or cannot be padded.
/// Padded nodes have no edges in the block and its transpose. Those after all sampled nodes are -1 if the
/// sampler knows about them (MiniBatchSampler::pad_nodes).
bool pad(MiniBatch& batch, const PaddedShape& shape);

}  // namespace strata::sampling
