// SPDX-License-Identifier: Apache-2.0
#include "loader/expand.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "strata/cuda/buffer.hpp"

namespace strata::batches {
namespace {

constexpr Count kNodesPerPiece = 4096;

}  // namespace

void expand_edges(const sampling::Block& block, const EdgePairs& out, const cuda::Stream& stream,
                  ThreadPool& pool) {
#if STRATA_WITH_CUDA
  if (block.device.is_cuda()) return expand_edges_on_gpu(block, out, stream);
#endif
  (void)stream;
  pool.parallel_for(block.num_dst, kNodesPerPiece, [&](Count begin, Count end) {
    for (Count dst = begin; dst < end; ++dst)
      std::fill(out.destinations + block.indptr[dst], out.destinations + block.indptr[dst + 1], dst);
    std::copy(block.indices + block.indptr[begin], block.indices + block.indptr[end],
              out.sources + block.indptr[begin]);
  });
}

std::vector<Count> NodeBatch::nodes_of_hop() const {
  std::vector<Count> nodes{num_seeds()};
  for (auto block = sample.blocks.rbegin(); block != sample.blocks.rend(); ++block)
    nodes.push_back(block->num_src - block->num_dst);
  return nodes;
}

std::vector<Count> NodeBatch::edges_of_hop() const {
  std::vector<Count> edges;
  for (auto block = sample.blocks.rbegin(); block != sample.blocks.rend(); ++block)
    edges.push_back(block->num_edges);
  return edges;
}

void widen_labels(const PackedLabels& labels, std::int64_t* out, const cuda::Stream& stream) {
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return widen_labels_on_gpu(labels, out, stream);
#endif
  (void)stream;
  std::copy_n(labels.words, labels.count, out);
}

void expand_label_sets(const PackedLabels& labels, Count classes, float* out, const cuda::Stream& stream) {
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return expand_label_sets_on_gpu(labels, classes, out, stream);
#endif
  (void)stream;
  const Count words = label_set_words(classes);
  for (Count i = 0; i < labels.count * classes; ++i)
    out[i] = label_value(labels.words + i / classes * words, classes, i % classes);
}

IdCheck::Word IdCheck::take_word(Device device) {
  const std::lock_guard lock(mutex_);
  if (unused_.empty()) return {cuda::Memory::device, 1, "a position", device};
  Word word = std::move(unused_.back());
  unused_.pop_back();
  return word;
}

/// -1: all are rows.
Count IdCheck::first_bad_position(const IdSpan& ids, Count rows, const cuda::Stream& stream) {
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) {
    Word word = take_word(stream.device());
    const Count position = first_bad_id_on_gpu(ids, rows, word.data(), stream);
    const std::lock_guard lock(mutex_);
    unused_.push_back(std::move(word));
    return position;
  }
#endif
  (void)stream;
  return ids.visit([&](const auto* values) -> Count {
    const auto* const end = values + ids.size;
    const auto* const bad = std::find_if(values, end, [&](auto id) { return id < 0 || id >= rows; });
    return bad == end ? -1 : bad - values;
  });
}

std::optional<BadId> IdCheck::find(const IdSpan& ids, Count rows, const cuda::Stream& stream) {
  const Count position = first_bad_position(ids, rows, stream);
  if (position < 0) return std::nullopt;
  alignas(NodeId) std::array<std::byte, sizeof(NodeId)> word;
  const std::size_t bytes = ids.wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
  cuda::copy_async(word.data(), static_cast<const std::byte*>(ids.data) + at(position) * bytes, bytes,
                   stream);
  stream.synchronize();
  return BadId{position, IdSpan{.data = word.data(), .size = 1, .wide = ids.wide}[0]};
}

}  // namespace strata::batches
