// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::sampling {

/// One layer's bipartite sample (MFG): messages flow from src to dst nodes. A view; the MiniBatch owns the
/// memory, which lies on `device` (a GPU's memory must not be read by the host).
///
/// src_nodes begin with dst_nodes, followed by the hop's new ids, ascending. Positions of src nodes are local
/// ids.
///
///     dst_nodes {7, 3}; sampled in-neighbors 7 <- {3, 9}, 3 <- {5}
///     src_nodes {7, 3, 5, 9}   indptr {0, 2, 3}   indices {1, 3, 2}
///
/// The in-edges of dst node i are entries [indptr[i], indptr[i + 1]) of `indices` and `edge_ids`; or, if the
/// sampler was asked for a stride (`stride` > 0, indptr null), the first counts[i] of the entries from i *
/// stride on, of which the others hold -1. The same example with stride 3:
///
///     counts {2, 1}   indices {1, 3, -1, 2, -1, -1}
struct Block {
  Device device;
  Count num_dst = 0, num_src = 0, num_edges = 0;
  const Count* indptr = nullptr;          ///< [num_dst + 1], or null with a stride
  const std::int32_t* indices = nullptr;  ///< [num_edges or num_dst * stride] local ids of src nodes
  const EdgeId* edge_ids = nullptr;       ///< where `indices` has an edge, or null if not asked for
  /// How often each edge of a packed list counts, 1 on average over a dst node's; an edge of 0 is as none.
  /// Null: once each. Samplers leave it null, for they choose by weight; exact evaluation sets it, outside
  /// training (nn::BlockModel::takes_edge_weights).
  const float* edge_weights = nullptr;
  int stride = 0;                        ///< entries a dst node; 0: packed lists
  const std::int32_t* counts = nullptr;  ///< [num_dst], with a stride only
  /// The input layer of a sampler that does not compact its inputs: `indices` are GLOBAL ids, and src_nodes
  /// are the dst nodes alone.
  bool global_indices = false;

  /// The transpose, if asked for: out-edges of each src node; dst local ids ascending. Lets backward passes
  /// sum without atomics, in an order that is always the same.
  const Count* transposed_indptr = nullptr;          ///< [num_src + 1]
  const std::int32_t* transposed_indices = nullptr;  ///< [num_edges]

  const NodeId* src_nodes = nullptr;         ///< [num_src] global ids
  const NodeId* src_original_ids = nullptr;  ///< [num_src]
  /// [num_src] degrees in the whole graph, or null if not asked for.
  const std::int32_t* src_in_degrees = nullptr;

  /// Same sizes and same addresses: what was recorded with one block can be replayed for another only if they
  /// are equal. A sampler may move a buffer set's memory whenever a batch needs more of it.
  bool operator==(const Block&) const = default;
};

/// A sampled minibatch; an owner of its blocks' memory. blocks.front() is the input layer, blocks.back() has
/// the seeds as dst.
///
/// Its memory may be reused by the sampler: see MiniBatchSampler::sample.
struct MiniBatch {
  std::vector<Block> blocks;
  Count num_seeds = 0;
  /// The sizes on the device, for work that does not wait for the host: nodes known before hop 0, after hop
  /// 0,
  /// ..., after the last; then the edges of hop 0, ... Null on the cpu.
  const Count* device_counts = nullptr;
  const BatchKey* device_key = nullptr;  ///< what the batch was sampled with, on the device; null on the cpu

  /// The input nodes in ascending order, which is that of (owner, row), and where they stand among
  /// input_nodes(); null if not asked for. As many as sampled inputs; if the sampler was told to pad(),
  /// padded ones follow as they do in input_nodes().
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

/// The sizes of batches that all get the same shape: at least those of any batch that is padded.
struct PaddedShape {
  std::vector<Count> nodes;    ///< [hops + 1] nodes known before hop 0, after hop 0, ...
  std::vector<Count> entries;  ///< [hops] of `indices`
};

/// Gives a GPU sampler's batch the shape, if it fits; false leaves it alone. Padded nodes have no edges in
/// the block and its transpose; those behind all sampled ones are -1 if the sampler was told to pad() them.
bool pad(MiniBatch& batch, const PaddedShape& shape);

}  // namespace strata::sampling
