// SPDX-License-Identifier: Apache-2.0
#include "batch_copier.hpp"

#include <algorithm>
#include <utility>

#include "expand.hpp"
#include "strata/cuda/copy.hpp"

namespace strata::loader {
namespace {

template <typename T>
void add_copy(std::vector<ArrayCopy>& copies, const T* to, const T* from, Count size) {
  copies.push_back({.to = const_cast<T*>(to), .from = from, .bytes = size * static_cast<Count>(sizeof(T))});
}

}  // namespace

BatchCopier::BatchCopier(std::shared_ptr<Graph> graph, NodeLoaderOptions::Form form)
    : graph_(std::move(graph)),
      form_(form),
      edge_ids_(graph_->stored().host_view().edge_ids.size > 0),
      label_sets_(graph_->manifest().multi_label),
      memory_(graph_->runtime().device()) {}

std::shared_ptr<BatchPiece> BatchCopier::copy(const Source& source, NodeBatch& batch,
                                              const cuda::Stream& stream) {
  const std::shared_ptr<BatchPiece> piece = memory_.take(stream);
  Carver sizes;
  lay_out(source, sizes, batch);
  // Arrays without elements are there, too: a batch without seeds goes into layers and losses.
  const auto bytes = std::max<Count>(1, static_cast<Count>(sizes.bytes()));
  Carver arrays(piece->arrays.reserve(cuda::memory_on(batch.device), bytes, "a batch", batch.device));
  lay_out(source, arrays, batch);
  fill(source, batch, stream);
  batch.memory = piece;
  return piece;
}

/// Gives the batch its arrays.
void BatchCopier::lay_out(const Source& source, Carver& arrays, NodeBatch& batch) const {
  batch.nodes = arrays.take<NodeId>(batch.num_nodes);
  batch.original_ids = arrays.take<NodeId>(batch.num_nodes);
  if (std::ssize(source.seed_places) == batch.num_seeds)
    batch.input_ids = arrays.take<Count>(batch.num_seeds);
  if (source.has_labels && !label_sets_) batch.labels = arrays.take<std::int64_t>(batch.num_seeds);
  if (source.has_labels && label_sets_)
    batch.label_sets = arrays.take<float>(batch.num_seeds * batch.num_classes);
  if (merges()) {
    batch.merged.count = source.sample.num_edges();
    batch.merged.edge_index = arrays.take<std::int64_t>(2 * batch.merged.count);
    if (edge_ids_) batch.merged.edge_ids = arrays.take<EdgeId>(batch.merged.count);
    return;
  }
  batch.blocks.clear();
  for (const sampling::Block& block : source.sample.blocks) {
    const bool transposed = block.transposed_indptr != nullptr;
    batch.blocks.push_back(
        {.num_dst = block.num_dst,
         .num_src = block.num_src,
         .num_edges = block.num_edges,
         .indptr = arrays.take<Count>(block.num_dst + 1),
         .indices = arrays.take<std::int32_t>(block.num_edges),
         .edge_ids = edge_ids_ ? arrays.take<EdgeId>(block.num_edges) : nullptr,
         .transposed_indptr = transposed ? arrays.take<Count>(block.num_src + 1) : nullptr,
         .transposed_indices = transposed ? arrays.take<std::int32_t>(block.num_edges) : nullptr});
  }
}

void BatchCopier::fill(const Source& source, NodeBatch& batch, const cuda::Stream& stream) {
  const sampling::Block& input = source.sample.blocks.front();
  std::vector<ArrayCopy> copies;
  add_copy(copies, batch.nodes, input.src_nodes, batch.num_nodes);
  add_copy(copies, batch.original_ids, input.src_original_ids, batch.num_nodes);
  if (merges())
    merge(source.sample, batch.merged, copies, stream);
  else
    add_blocks(source.sample, batch, copies);
  copy_arrays(copies, stream);
  cuda::copy_async(const_cast<Count*>(batch.input_ids), source.seed_places.data(),
                   source.seed_places.size_bytes(), stream);
  const PackedLabels labels{source.labels, batch.num_seeds};
  if (batch.labels != nullptr && batch.num_seeds > 0)
    widen_labels(labels, const_cast<std::int64_t*>(batch.labels), stream);
  if (batch.label_sets != nullptr && batch.num_seeds > 0)
    expand_label_sets(labels, batch.num_classes, const_cast<float*>(batch.label_sets), stream);
}

void BatchCopier::merge(const sampling::MiniBatch& sample, MergedEdges& merged,
                        std::vector<ArrayCopy>& copies, const cuda::Stream& stream) {
  Count first = 0;
  merged.nodes_of_hop = {sample.num_seeds};
  for (auto block = sample.blocks.rbegin(); block != sample.blocks.rend(); ++block) {
    auto* const sources = const_cast<std::int64_t*>(merged.edge_index) + first;
    expand_edges(*block, {.sources = sources, .destinations = sources + merged.count}, stream,
                 graph_->runtime().caller_pool());
    if (merged.edge_ids != nullptr)
      add_copy(copies, merged.edge_ids + first, block->edge_ids, block->num_edges);
    merged.nodes_of_hop.push_back(block->num_src - block->num_dst);
    merged.edges_of_hop.push_back(block->num_edges);
    first += block->num_edges;
  }
}

void BatchCopier::add_blocks(const sampling::MiniBatch& sample, const NodeBatch& batch,
                             std::vector<ArrayCopy>& copies) {
  for (std::size_t i = 0; i < sample.blocks.size(); ++i) {
    const sampling::Block& from = sample.blocks[i];
    const BatchBlock& to = batch.blocks[i];
    add_copy(copies, to.indptr, from.indptr, from.num_dst + 1);
    add_copy(copies, to.indices, from.indices, from.num_edges);
    if (to.edge_ids != nullptr) add_copy(copies, to.edge_ids, from.edge_ids, from.num_edges);
    if (from.transposed_indptr == nullptr) continue;
    add_copy(copies, to.transposed_indptr, from.transposed_indptr, from.num_src + 1);
    add_copy(copies, to.transposed_indices, from.transposed_indices, from.num_edges);
  }
}

}  // namespace strata::loader
