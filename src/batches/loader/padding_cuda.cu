// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "loader/padding_rules.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/kernels.cuh"

namespace strata::batches {
namespace {

using Kind = PaddedArray::Kind;
using cuda::kThreads;

constexpr Count kItemsPerBlock = 8 * kThreads;

struct Launch {
  PaddingTasks tasks;
  std::uint32_t first_block[BatchPadder::kMaxArrays + 1] = {};
};

template <typename Word>
__device__ Word filled(std::int64_t) {
  return Word{};
}
template <>
__device__ std::int64_t filled<std::int64_t>(std::int64_t fill) {
  return fill;
}

// Rows are found by 32-bit division where that is possible, as it is for all but huge batches.
__device__ inline Count row_of_item(const PaddingTask& task, Count i) {
  if (task.items <= 0xFFFFFFFFll)
    return static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(task.words);
  return i / task.words;
}

template <typename Word>
__device__ void pad_word(const PaddingTask& task, const PaddedSegment* segments, Count i) {
  const Count row = row_of_item(task, i);
  const PaddedItem item = padded_item(segments, task.first, task.last, row);
  static_cast<Word*>(task.to)[i] =
      item.from < 0 ? filled<Word>(task.fill)
                    : static_cast<const Word*>(task.from)[item.from * task.words + (i - row * task.words)];
}

/// Items [begin, end) of rows. A hop's rows are one piece of memory, and then padding: a block within a hop
/// divides nothing and is as fast as a copy.
template <typename Word>
__device__ void pad_words(const PaddingTask& task, const PaddedSegment* segments, Count begin, Count end) {
  const auto hop_of = [&](Count item) {
    return padded_item(segments, task.first, task.last, row_of_item(task, item)).hop;
  };
  const PaddedSegment &first = segments[task.first], &hop = segments[hop_of(begin)];
  if (hop_of(end - 1) != hop_of(begin)) {
    for (Count i = begin + threadIdx.x; i < end; i += kThreads) pad_word<Word>(task, segments, i);
    return;
  }
  const Count place = hop.to - first.to;
  const Count filled_end = (place + hop.count) * task.words;
  const Word* __restrict__ from =
      static_cast<const Word*>(task.from) + (hop.from - first.from - place) * task.words;
  Word* __restrict__ to = static_cast<Word*>(task.to);
#pragma unroll 8
  for (Count i = begin + threadIdx.x; i < end; i += kThreads)
    to[i] = i < filled_end ? from[i] : filled<Word>(task.fill);
}

__device__ void pad_rows(const PaddingTask& task, const PaddedSegment* segments, Count begin, Count end) {
  switch (task.word) {
    case 16:
      return pad_words<uint4>(task, segments, begin, end);
    case 8:
      return pad_words<std::int64_t>(task, segments, begin, end);
    case 4:
      return pad_words<std::uint32_t>(task, segments, begin, end);
    default:
      return pad_words<std::uint8_t>(task, segments, begin, end);
  }
}

// Each block has items of one array. The rows of features, which are read and written once, bound the time.
__global__ void __launch_bounds__(kThreads) pad_kernel(const __grid_constant__ Launch launch) {
  int t = 0;
  while (blockIdx.x >= launch.first_block[t + 1]) ++t;
  const PaddingTask& task = launch.tasks.tasks[t];
  const Count begin = (blockIdx.x - launch.first_block[t]) * kItemsPerBlock;
  const Count end = min(task.items, begin + kItemsPerBlock);
  const PaddedSegments& all = launch.tasks.segments;
  switch (task.kind) {
    case Kind::nodes:
    case Kind::seeds:
      return pad_rows(task, all.nodes, begin, end);
    case Kind::edges:
    case Kind::all_edges:
      return pad_rows(task, all.edges, begin, end);
    default:
#pragma unroll 4
      for (Count i = begin + threadIdx.x; i < end; i += kThreads) pad_item(all, task, i);
  }
}

}  // namespace

void pad_on_gpu(const PaddingTasks& tasks, const cuda::Stream& stream) {
  Launch launch{.tasks = tasks};
  for (int t = 0; t < tasks.count; ++t) {
    const Count blocks = (tasks.tasks[t].items + kItemsPerBlock - 1) / kItemsPerBlock;
    launch.first_block[t + 1] = launch.first_block[t] + static_cast<std::uint32_t>(blocks);
  }
  const std::uint32_t blocks = launch.first_block[tasks.count];
  if (blocks == 0) return;
  const cuda::DeviceGuard guard(stream.device());
  pad_kernel<<<blocks, kThreads, 0, stream.get()>>>(launch);
  cuda::check_launch("pad_kernel");
}

}  // namespace strata::batches
