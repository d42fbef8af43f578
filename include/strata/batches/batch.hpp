// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/sampling/block.hpp"
#include "strata/util/random.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

/// Where the edges of a block go: local ids, [num_edges] each.
struct EdgePairs {
  std::int64_t* sources = nullptr;
  std::int64_t* destinations = nullptr;
};
/// Writes a packed block's edges as pairs, in the order of its lists. On the block's device: at once on the
/// cpu, else asynchronously on `stream`.
void expand_edges(const sampling::Block& block, const EdgePairs& out, const cuda::Stream& stream,
                  ThreadPool& pool);

/// What was sampled for a step, and the rows of its nodes. A view; all arrays lie on one device.
struct Batch {
  BatchKey key;
  Count step_in_epoch = 0;
  Count num_global_seeds = 0;  ///< of all ranks in this step
  sampling::MiniBatch sample;
  const float* features = nullptr;  ///< [sample.num_inputs(), feature_cols]; null: there are none
};

/// A batch whose memory is its own: an owner, which gives the memory back to its loader for a later batch
/// when the last reference to it is gone. Arrays lie on `device`, and are ready where the stream that was
/// given to NodeLoader::next() has reached that point.
///
/// Its blocks have packed lists, if the loader makes blocks. Else they have only sizes and nodes, and
/// `edge_index` has the edges of all hops as one graph over the batch's nodes, in the order of the hops, as
/// PyG's loaders give them: sources, then destinations, both as local ids.
struct NodeBatch : Batch {
  Device device;
  /// The factor that makes the mean over ranks of the ranks' mean losses the mean over all seeds.
  double loss_scale = 0;

  Count feature_cols = 0;
  const Count* input_ids = nullptr;  ///< [num_seeds()] where each seed is among a loader's nodes
  /// [num_seeds()] classes, -1 where there is none; null if nodes have sets of classes, or none.
  const std::int64_t* labels = nullptr;
  /// [num_seeds(), num_classes] 1 where a node has the class, else 0; nan in rows without labels. Null if a
  /// node has one class.
  const float* label_sets = nullptr;
  Count num_classes = 0;

  const std::int64_t* edge_index = nullptr;  ///< [2, num_edges()]; null: the blocks have lists
  const EdgeId* edge_ids = nullptr;          ///< [num_edges()] of edge_index; null: the graph has none

  std::shared_ptr<const void> memory = {};

  Count num_seeds() const { return sample.num_seeds; }  ///< of this rank; the first of nodes()
  Count num_nodes() const { return sample.num_inputs(); }
  Count num_edges() const { return sample.num_edges(); }
  const NodeId* nodes() const { return sample.input_nodes(); }  ///< [num_nodes()] global ids
  const NodeId* original_ids() const { return sample.blocks.front().src_original_ids; }
  std::vector<Count> nodes_of_hop() const;  ///< [hops + 1] seeds, then nodes that each hop found
  std::vector<Count> edges_of_hop() const;  ///< [hops]
};

}  // namespace strata::batches
