// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "loader/padding_rules.hpp"
#include "strata/batches/batch.hpp"
#include "strata/util/error.hpp"

namespace strata::batches {
namespace {

using Kind = PaddedArray::Kind;

constexpr Count kItemsPerPiece = 1 << 14;

void set_segments(const std::vector<Count>& counts, const std::vector<Count>& rooms,
                  PaddedSegment* segments) {
  Count from = 0, to = 0;
  for (std::size_t hop = 0; hop < rooms.size(); ++hop) {
    segments[hop] = {.from = from, .count = counts[hop], .to = to, .room = rooms[hop]};
    from += counts[hop];
    to += rooms[hop];
  }
}

PaddedSegments segments_of(const PaddedRooms& rooms, const HopCounts& counts) {
  PaddedSegments all{.hops = static_cast<int>(rooms.edges.size())};
  set_segments(counts.nodes, rooms.nodes, all.nodes);
  set_segments(counts.edges, rooms.edges, all.edges);
  std::ranges::copy(rooms.spare, all.spare);
  return all;
}

Count end_of(const PaddedSegment& segment) { return segment.to + segment.room; }

Count found_until(const PaddedSegment& segment) { return segment.from + segment.count; }

Count rows_of(const PaddedArray& array, const PaddedSegments& all) {
  switch (array.kind) {
    case Kind::nodes:
      return found_until(all.nodes[all.hops]);
    case Kind::seeds:
    case Kind::seed_mask:
      return all.nodes[0].count;
    case Kind::starts:
      return found_until(all.nodes[array.hop]) + 1;
    case Kind::out_starts:
      return found_until(all.nodes[array.hop + 1]) + 1;
    case Kind::edges:
    case Kind::sources:
    case Kind::out_ends:
      return all.edges[array.hop].count;
    case Kind::all_edges:
    case Kind::all_sources:
    case Kind::all_ends:
      return all.hops == 0 ? 0 : found_until(all.edges[all.hops - 1]);
  }
  return 0;
}

void check_rows(const PaddedArray& array, const PaddingSource& source, const PaddedSegments& all) {
  const Count wanted = rows_of(array, all);
  if (source.rows == wanted || array.kind == Kind::seed_mask) return;
  throw InputError(
      fmt::format("an array of a batch has {} rows, where its hops have {}", source.rows, wanted),
      "Give batches of the loader as they come.");
}

/// Bytes that may be moved at once.
int word_of(const PaddingTask& task, Count row_bytes) {
  const auto fits = [&](Count bytes) {
    const auto divides = [&](const void* p) {
      return reinterpret_cast<std::uintptr_t>(p) % static_cast<std::uintptr_t>(bytes) == 0;
    };
    return row_bytes % bytes == 0 && divides(task.from) && divides(task.to);
  };
  if (task.fill != 0) return 8;
  for (const int bytes : {16, 8, 4})
    if (fits(bytes)) return bytes;
  return 1;
}

void set_rows(PaddingTask& task, const PaddedArray& array, Count rows) {
  task.word = word_of(task, array.row_bytes);
  task.words = array.row_bytes / task.word;
  task.items = rows * task.words;
}

PaddingTask task_of(const PaddedArray& array, const void* from, const PaddedSegments& all) {
  PaddingTask task{.kind = array.kind,
                   .first = array.hop,
                   .last = array.hop,
                   .fill = array.fill,
                   .from = from,
                   .to = array.to};
  const int last_hop = all.hops - 1;
  const Count all_edges = all.hops == 0 ? 0 : end_of(all.edges[last_hop]);
  switch (array.kind) {
    case Kind::nodes:
      task.first = 0, task.last = all.hops;
      set_rows(task, array, end_of(all.nodes[all.hops]));
      break;
    case Kind::seeds:
    case Kind::seed_mask:
      task.first = task.last = 0;
      if (array.kind == Kind::seeds)
        set_rows(task, array, all.nodes[0].room);
      else
        task.items = all.nodes[0].room;
      break;
    case Kind::edges:
      set_rows(task, array, all.edges[array.hop].room);
      break;
    case Kind::all_edges:
      task.first = 0, task.last = last_hop;
      set_rows(task, array, all_edges);
      break;
    case Kind::starts:
      task.items = end_of(all.nodes[array.hop]) + 1;
      break;
    case Kind::out_starts:
      task.last = array.hop + 1;
      task.items = end_of(all.nodes[array.hop + 1]) + 1;
      break;
    case Kind::sources:
    case Kind::out_ends:
      task.spare = array.kind == Kind::sources ? 1 : 0;
      task.items = all.edges[array.hop].room;
      break;
    case Kind::all_sources:
    case Kind::all_ends:
      task.first = 0, task.last = last_hop;
      task.spare = array.kind == Kind::all_sources ? 1 : 0;
      task.items = all_edges;
      break;
  }
  return task;
}

void pad_rows(const PaddingTask& task, const PaddedSegment* segments, ThreadPool& pool) {
  const auto bytes = at(task.words * task.word);
  auto* const to = static_cast<std::byte*>(task.to);
  const auto* const from = static_cast<const std::byte*>(task.from);
  pool.parallel_for(task.items / std::max<Count>(1, task.words), kItemsPerPiece, [&](Count begin, Count end) {
    for (Count row = begin; row < end; ++row) {
      std::byte* const out = to + at(row) * bytes;
      const PaddedItem item = padded_item(segments, task.first, task.last, row);
      if (item.from >= 0)
        std::memcpy(out, from + at(item.from) * bytes, bytes);
      else if (task.fill != 0)
        std::memcpy(out, &task.fill, sizeof(task.fill));
      else
        std::memset(out, 0, bytes);
    }
  });
}

}  // namespace

void pad_on_cpu(const PaddingTasks& tasks, ThreadPool& pool) {
  const PaddedSegments& all = tasks.segments;
  for (int t = 0; t < tasks.count; ++t) {
    const PaddingTask& task = tasks.tasks[t];
    switch (task.kind) {
      case Kind::nodes:
      case Kind::seeds:
        pad_rows(task, all.nodes, pool);
        break;
      case Kind::edges:
      case Kind::all_edges:
        pad_rows(task, all.edges, pool);
        break;
      default:
        pool.parallel_for(task.items, kItemsPerPiece, [&](Count begin, Count end) {
          for (Count i = begin; i < end; ++i) pad_item(all, task, i);
        });
    }
  }
}

BatchPadder::BatchPadder(PaddedRooms rooms, std::vector<PaddedArray> arrays, Device device)
    : rooms_(std::move(rooms)), arrays_(std::move(arrays)), device_(device) {
  if (std::ssize(rooms_.edges) <= kMaxHops && std::ssize(arrays_) <= kMaxArrays) return;
  throw InputError(fmt::format("batches of {} hops and {} arrays cannot be padded; at most {} and {} can",
                               rooms_.edges.size(), arrays_.size(), kMaxHops, kMaxArrays),
                   "Give a loader with fewer fanouts.");
}

void BatchPadder::pad(const HopCounts& counts, std::span<const PaddingSource> sources,
                      const cuda::Stream& stream, ThreadPool& pool) const {
  PaddingTasks tasks{.segments = segments_of(rooms_, counts)};
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    check_rows(arrays_[i], sources[i], tasks.segments);
    tasks.tasks[tasks.count++] = task_of(arrays_[i], sources[i].data, tasks.segments);
  }
#if STRATA_WITH_CUDA
  if (device_.is_cuda()) return pad_on_gpu(tasks, stream);
#endif
  (void)stream;
  pad_on_cpu(tasks, pool);
}

}  // namespace strata::batches
