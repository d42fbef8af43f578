// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/sampling/block.hpp"
#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"
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
  /// [num_seeds(), or num_links of a loader of links] where each is among a loader's nodes, or links.
  const Count* input_ids = nullptr;
  /// [num_seeds()] classes, -1 where there is none; null if nodes have sets of classes, targets, or none.
  const std::int64_t* labels = nullptr;
  /// [num_seeds(), num_classes] 1 where a node has the class, else 0; nan in rows without labels. Or targets
  /// of regression, nan where one is missing. Null if a node has one class.
  const float* label_sets = nullptr;
  Count num_classes = 0;  ///< or columns of targets

  const std::int64_t* edge_index = nullptr;  ///< [2, num_edges()]; null: the blocks have lists
  const EdgeId* edge_ids = nullptr;          ///< [num_edges()] of edge_index; null: the graph has none

  /// Places among nodes() of the ends of links and negatives, as LinkPairs; null if seeds are nodes.
  const std::int64_t *link_sources = nullptr, *link_destinations = nullptr;
  Count num_links = 0, num_link_sources = 0, num_link_destinations = 0;
  const std::int64_t* link_groups = nullptr;  ///< [num_links] of LinkPairs; null if no negatives are shared
  Count num_link_groups = 0;                  ///< different ones

  std::shared_ptr<const void> memory = {};

  Count num_seeds() const { return sample.num_seeds; }  ///< of this rank; the first of nodes()
  Count num_input_ids() const { return link_sources == nullptr ? num_seeds() : num_links; }
  Count num_nodes() const { return sample.num_inputs(); }
  Count num_edges() const { return sample.num_edges(); }
  const NodeId* nodes() const { return sample.input_nodes(); }  ///< [num_nodes()] global ids
  const NodeId* original_ids() const { return sample.blocks.front().src_original_ids; }
  std::vector<Count> nodes_of_hop() const;  ///< [hops + 1] seeds, then nodes that each hop found
  std::vector<Count> edges_of_hop() const;  ///< [hops]
};

/// Rooms for the nodes and the edges of each hop. The last `spare` rows of a hop are never filled.
struct PaddedRooms {
  std::vector<Count> nodes;  ///< [hops + 1] seeds first
  std::vector<Count> edges;  ///< [hops]
  std::vector<Count> spare;  ///< [hops + 1] at least 1
};

/// What a batch has: at most the rooms, less the spare rows.
struct HopCounts {
  std::vector<Count> nodes, edges;
};

/// An array of batches in memory of a fixed shape.
struct PaddedArray {
  enum class Kind : std::uint8_t {
    nodes,        ///< [nodes, row_bytes] rows of all nodes; padding is 0
    seeds,        ///< [seeds, row_bytes] rows of the seeds; padding is `fill`
    seed_mask,    ///< bool [seeds]; has no source
    edges,        ///< [edges of the hop, row_bytes]; padding is 0
    all_edges,    ///< [edges of all hops, row_bytes], hop by hop; padding is 0
    starts,       ///< int64 [destinations of the hop + 1], where the lists of its in-edges start
    sources,      ///< int32 [edges of the hop] rows of sources, list by list
    out_starts,   ///< int64 [sources of the hop + 1], of its out-edges
    out_ends,     ///< int32 [edges of the hop] rows of destinations, list by list
    all_sources,  ///< int64 [edges of all hops] rows of sources, hop by hop
    all_ends,     ///< int64 [edges of all hops] rows of destinations
  } kind = Kind::nodes;
  int hop =
      0;  ///< whose destinations are the nodes of hops 0 to `hop`, and whose sources those and the next hop's
  Count row_bytes = 0;    ///< of rows
  std::int64_t fill = 0;  ///< where row_bytes is 8
  void* to = nullptr;
};

/// An array of a batch, with its own numbers of nodes and edges.
struct PaddingSource {
  const void* data = nullptr;  ///< may be null without rows
  Count rows = 0;
};

/// Moves batches into arrays of fixed shapes, where a recorded step finds them; one launch per batch on a
/// GPU. Nodes come hop by hop, seeds first, and what is left of a hop's room at its end is padding. With
/// rooms for 4, 6 and 8 nodes, of 3 seeds, 4 and 7 nodes,
///
///     row       0 1 2 3 | 4 5 6 7 8 9 | 10 ... 16 17
///     holds     s s s - | a a a a - - | b  ...  b  -
///
/// Padding edges go from spare rows of a hop to spare rows of the hop before, evenly, so that no node of the
/// batch has another edge than without them. A view of the arrays.
class BatchPadder {
 public:
  static constexpr int kMaxHops = 8;
  static constexpr int kMaxArrays = 32;

  /// Throws InputError for more hops or arrays than the maxima.
  BatchPadder(PaddedRooms rooms, std::vector<PaddedArray> arrays, Device device);

  /// sources: the batch's array for each padded one, in the same order; that of a `seed_mask` is ignored. At
  /// once on the CPU, else asynchronous on `stream`. Throws InputError if an array has other rows than the
  /// counts say.
  void pad(const HopCounts& counts, std::span<const PaddingSource> sources, const cuda::Stream& stream,
           ThreadPool& pool) const;

 private:
  PaddedRooms rooms_;
  std::vector<PaddedArray> arrays_;
  Device device_;
};

}  // namespace strata::batches
