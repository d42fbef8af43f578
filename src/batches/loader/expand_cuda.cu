// SPDX-License-Identifier: Apache-2.0
#include "loader/expand.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/kernels.cuh"

namespace strata::batches {
namespace {

using cuda::blocks_for;
using cuda::first_item;
using cuda::item_stride;
using cuda::kThreads;

__global__ void expand_lists(const sampling::Block block, EdgePairs out) {
  for (Count e = first_item<Count>(); e < block.num_edges; e += item_stride<Count>()) {
    out.sources[e] = block.indices[e];
    out.destinations[e] = cuda::list_of(block.indptr, block.num_dst, e);
  }
}

__global__ void widen(PackedLabels labels, std::int64_t* out) {
  for (Count i = first_item<Count>(); i < labels.count; i += item_stride<Count>()) out[i] = labels.words[i];
}

__global__ void expand_sets(PackedLabels labels, Count classes, float* out) {
  const Count words = label_set_words(classes);
  for (Count i = first_item<Count>(); i < labels.count * classes; i += item_stride<Count>())
    out[i] = label_value(labels.words + i / classes * words, classes, i % classes);
}

template <typename Id>
__global__ void find_bad(const Id* ids, Count count, Count rows, unsigned long long* first) {
  for (Count i = first_item<Count>(); i < count; i += item_stride<Count>()) {
    if (ids[i] < 0 || ids[i] >= rows) atomicMin(first, static_cast<unsigned long long>(i));
  }
}

}  // namespace

Count first_bad_id_on_gpu(const IdSpan& ids, Count rows, Count* first, const cuda::Stream& stream) {
  cuda::fill_async(first, 0xFF, sizeof(Count), stream);
  auto* const found = reinterpret_cast<unsigned long long*>(first);
  ids.visit([&](const auto* values) {
    find_bad<<<blocks_for(ids.size), kThreads, 0, stream.get()>>>(values, ids.size, rows, found);
  });
  cuda::check_launch("find_bad");
  Count position = -1;
  cuda::copy_async(&position, first, sizeof(position), stream);
  stream.synchronize();
  return position;
}

void expand_edges_on_gpu(const sampling::Block& block, const EdgePairs& out, const cuda::Stream& stream) {
  if (block.num_edges == 0) return;
  expand_lists<<<blocks_for(block.num_edges), kThreads, 0, stream.get()>>>(block, out);
  cuda::check_launch("expand_lists");
}

void widen_labels_on_gpu(const PackedLabels& labels, std::int64_t* out, const cuda::Stream& stream) {
  widen<<<blocks_for(labels.count), kThreads, 0, stream.get()>>>(labels, out);
  cuda::check_launch("widen");
}

void expand_label_sets_on_gpu(const PackedLabels& labels, Count classes, float* out,
                              const cuda::Stream& stream) {
  expand_sets<<<blocks_for(labels.count * classes), kThreads, 0, stream.get()>>>(labels, classes, out);
  cuda::check_launch("expand_sets");
}

}  // namespace strata::batches
