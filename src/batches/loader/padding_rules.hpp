// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/batches/batch.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/random.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

/// Which element of a batch, or which padding, each element of a padded array is.
namespace strata::batches {

/// One hop's part of an array: [from, from + count) of the batch is [to, to + count) of the room.
struct PaddedSegment {
  Count from = 0, count = 0, to = 0, room = 0;
};

struct PaddedSegments {
  int hops = 0;
  PaddedSegment nodes[BatchPadder::kMaxHops + 1] = {};
  PaddedSegment edges[BatchPadder::kMaxHops] = {};
  Count spare[BatchPadder::kMaxHops + 1] = {};

  STRATA_HOST_DEVICE Count spare_begin(int hop) const { return nodes[hop].to + nodes[hop].room - spare[hop]; }
  /// The row of a node of the batch.
  STRATA_HOST_DEVICE Count row_of(Count node) const {
    int hop = 0;
    while (hop < hops && node >= nodes[hop].from + nodes[hop].count) ++hop;
    return node - nodes[hop].from + nodes[hop].to;
  }
};

/// An array as the loops over its items see it.
struct PaddingTask {
  PaddedArray::Kind kind = PaddedArray::Kind::nodes;
  int first = 0, last = 0;  ///< hops of its segments
  int spare = 0;            ///< the hop of padding ends is that of the edges, and so many
  int word = 1;             ///< bytes of an item of rows: 1, 4, 8 or 16
  Count words = 1;          ///< of a row
  Count items = 0;
  std::int64_t fill = 0;
  const void* from = nullptr;
  void* to = nullptr;
};

/// Where an item comes from; -1: it is padding.
struct PaddedItem {
  int hop = 0;
  Count place = 0;  ///< in its hop's room
  Count from = -1;
};

/// Of row `row` of segments [first, last], whose array begins with the first one.
STRATA_HOST_DEVICE inline PaddedItem padded_item(const PaddedSegment* segments, int first, int last,
                                                 Count row) {
  const Count begin = segments[first].to, begin_from = segments[first].from;
  int hop = first;
  while (hop < last && row + begin >= segments[hop].to + segments[hop].room) ++hop;
  const PaddedSegment& segment = segments[hop];
  const Count place = row + begin - segment.to;
  return {hop, place, place < segment.count ? segment.from - begin_from + place : -1};
}

/// Item i of an array of ends, int32 or int64.
template <typename Id>
STRATA_HOST_DEVICE inline Id padded_end(const PaddedSegments& all, const PaddingTask& task, Count i) {
  const PaddedItem item = padded_item(all.edges, task.first, task.last, i);
  if (item.from >= 0) return static_cast<Id>(all.row_of(static_cast<const Id*>(task.from)[item.from]));
  const int hop = item.hop + task.spare;
  return static_cast<Id>(all.spare_begin(hop) + item.place * all.spare[hop] / all.edges[item.hop].room);
}

/// Item i of an array of starts: lists of nodes, none for other padding, and lists of padding edges for the
/// spare rows of the last hop.
STRATA_HOST_DEVICE inline Count padded_start(const PaddedSegments& all, const PaddingTask& task, Count i) {
  const Count spare = all.spare[task.last], first_spare = all.spare_begin(task.last);
  const PaddedSegment& edges = all.edges[task.first];
  if (i >= first_spare) {
    const Count bound = ((i - first_spare) * edges.room + spare - 1) / spare;
    return bound < edges.count ? edges.count : bound;
  }
  const PaddedItem item = padded_item(all.nodes, 0, task.last, i);
  const PaddedSegment& hop = all.nodes[item.hop];
  const auto* const starts = static_cast<const Count*>(task.from);
  return starts[hop.from + (item.place < hop.count ? item.place : hop.count)];
}

/// Writes item i of an array that has no rows of the batch's.
STRATA_HOST_DEVICE inline void pad_item(const PaddedSegments& all, const PaddingTask& task, Count i) {
  using Kind = PaddedArray::Kind;
  switch (task.kind) {
    case Kind::seed_mask:
      static_cast<bool*>(task.to)[i] = i < all.nodes[0].count;
      return;
    case Kind::starts:
    case Kind::out_starts:
      static_cast<Count*>(task.to)[i] = padded_start(all, task, i);
      return;
    case Kind::sources:
    case Kind::out_ends:
      static_cast<std::int32_t*>(task.to)[i] = padded_end<std::int32_t>(all, task, i);
      return;
    case Kind::all_sources:
    case Kind::all_ends:
      static_cast<std::int64_t*>(task.to)[i] = padded_end<std::int64_t>(all, task, i);
      return;
    default:  // rows
      return;
  }
}

struct PaddingTasks {
  PaddedSegments segments;
  int count = 0;
  PaddingTask tasks[BatchPadder::kMaxArrays] = {};
};
void pad_on_cpu(const PaddingTasks& tasks, ThreadPool& pool);
void pad_on_gpu(const PaddingTasks& tasks, const cuda::Stream& stream);  ///< CUDA builds only

}  // namespace strata::batches
