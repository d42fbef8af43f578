// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

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
