// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/util/random.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::loader {

/// One layer of a batch, as sampling::Block describes it: local ids of the batch's nodes, of which the first
/// num_dst are destinations and the first num_src are sources.
struct BatchBlock {
  Count num_dst = 0, num_src = 0, num_edges = 0;
  const Count* indptr = nullptr;          ///< [num_dst + 1]
  const std::int32_t* indices = nullptr;  ///< [num_edges] sources
  const EdgeId* edge_ids = nullptr;       ///< [num_edges]; null: the graph has none
  /// The out-edges of each source, as ascending destinations; null in the input layer, whose input needs no
  /// gradient, and if not asked for.
  const Count* transposed_indptr = nullptr;          ///< [num_src + 1]
  const std::int32_t* transposed_indices = nullptr;  ///< [num_edges]
};

/// Writes a block's edges as pairs, edge_index [2, num_edges]: sources, then destinations, in the order of
/// its lists. All of it lies on the device of `stream`, on which it is written; on the cpu, at once.
void expand_edges(const BatchBlock& block, std::int64_t* edge_index, const cuda::Stream& stream,
                  ThreadPool& pool);

/// The edges of all hops as one graph over the batch's nodes, in the order of the hops, as PyG's loaders give
/// them. Null and empty unless asked for.
///
///     edge_index = {sources..., destinations...}, both local ids
struct MergedEdges {
  Count count = 0;
  const std::int64_t* edge_index = nullptr;  ///< [2, count]
  const EdgeId* edge_ids = nullptr;          ///< [count]; null: the graph has none
  std::vector<Count> nodes_of_hop;           ///< [hops + 1] seeds, then nodes that each hop found
  std::vector<Count> edges_of_hop;           ///< [hops]
};

/// A batch whose memory is its own: an owner, which gives the memory back to its loader for a later batch
/// when the last reference to it is gone. Arrays lie on `device`, and are ready where the stream that was
/// given to NodeLoader::next() has reached that point.
struct NodeBatch {
  Device device;
  BatchKey key;
  Count step = 0;              ///< in the epoch
  Count num_seeds = 0;         ///< of this rank; the first of `nodes`
  Count num_global_seeds = 0;  ///< of all ranks
  /// The factor that makes the mean over ranks of the ranks' mean losses the mean over all seeds.
  double loss_scale = 0;

  Count num_nodes = 0, feature_cols = 0;
  const NodeId* nodes = nullptr;         ///< [num_nodes] global ids, seeds first
  const NodeId* original_ids = nullptr;  ///< [num_nodes]
  const Count* input_ids = nullptr;      ///< [num_seeds] where each seed is among a loader's nodes
  const float* features = nullptr;       ///< [num_nodes, feature_cols]; null: the graph has none
  /// [num_seeds] classes, -1 where there is none; null if nodes have sets of classes, or none.
  const std::int64_t* labels = nullptr;
  /// [num_seeds, num_classes] 1 where a node has the class, else 0; nan in rows without labels. Null if a
  /// node has one class.
  const float* label_sets = nullptr;
  Count num_classes = 0;

  MergedEdges merged = {};
  std::vector<BatchBlock> blocks = {};  ///< the input layer first

  std::shared_ptr<const void> memory = {};
};

}  // namespace strata::loader
