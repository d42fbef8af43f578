// SPDX-License-Identifier: Apache-2.0
#include "loader/batch_copier.hpp"

#include <algorithm>
#include <utility>

#include "loader/expand.hpp"
#include "strata/cuda/buffer.hpp"

namespace strata::batches {

BatchCopier::BatchCopier(std::shared_ptr<Graph> graph, NodeLoaderOptions::Form form, bool has_labels)
    : graph_(std::move(graph)),
      form_(form),
      edge_ids_(graph_->stored().host_view().edge_ids.size > 0),
      has_labels_(has_labels),
      label_sets_(graph_->manifest().multi_label),
      targets_(!graph_->manifest().targets.empty()),
      memory_(graph_->runtime().device()) {}

std::shared_ptr<BatchPiece> BatchCopier::copy(const LoadedBatch& from, NodeBatch& batch,
                                              const cuda::Stream& stream) {
  batch.key = from.key;
  batch.step_in_epoch = from.step_in_epoch;
  batch.num_global_seeds = from.num_global_seeds;
  batch.device = graph_->runtime().device();
  batch.num_classes = graph_->manifest().outputs();
  const std::shared_ptr<BatchPiece> piece = memory_.take(stream);
  Carver sizes;
  lay_out(from, sizes, batch);
  // Arrays without elements are there, too: a batch without seeds goes into layers and losses.
  const auto bytes = std::max<Count>(1, static_cast<Count>(sizes.bytes()));
  Carver arrays(piece->arrays.reserve(cuda::memory_on(batch.device), bytes, "a batch", batch.device));
  const Made made = lay_out(from, arrays, batch);
  copy_arrays(arrays.copies(), stream);
  make(from, made, batch, stream);
  batch.memory = piece;
  return piece;
}

/// Gives the batch its arrays.
BatchCopier::Made BatchCopier::lay_out(const LoadedBatch& from, Carver& arrays, NodeBatch& batch) const {
  const sampling::MiniBatch& sample = from.sample;
  const sampling::Block& input = sample.blocks.front();
  const NodeId* const nodes = arrays.take_copy(input.src_nodes, input.num_src);
  const NodeId* const original_ids = arrays.take_copy(input.src_original_ids, input.num_src);
  batch.sample = {.blocks = {}, .num_seeds = sample.num_seeds, .can_be_padded = false};
  for (const sampling::Block& block : sample.blocks) {
    sampling::Block& to = batch.sample.blocks.emplace_back();
    to = {.device = batch.device,
          .num_dst = block.num_dst,
          .num_src = block.num_src,
          .num_edges = block.num_edges,
          .src_nodes = nodes,
          .src_original_ids = original_ids};
    if (!merges()) lay_out_lists(block, arrays, to);
  }
  Made made;
  if (from.of_links || std::ssize(from.seed_places) == sample.num_seeds)
    made.input_ids = arrays.take<Count>(std::ssize(from.seed_places));
  if (from.of_links) {
    batch.num_links = std::ssize(from.seed_places);
    batch.num_link_sources = std::ssize(from.link_sources);
    batch.num_link_destinations = std::ssize(from.link_destinations);
    batch.link_sources = made.link_sources = arrays.take<std::int64_t>(batch.num_link_sources);
    batch.link_destinations = made.link_destinations = arrays.take<std::int64_t>(batch.num_link_destinations);
    if (!from.link_groups.empty()) {
      batch.link_groups = made.link_groups = arrays.take<std::int64_t>(batch.num_links);
      batch.num_link_groups = 1 + *std::ranges::max_element(from.link_groups);
    }
  }
  const bool rows = label_sets_ || targets_;
  if (has_labels_ && !rows) made.labels = arrays.take<std::int64_t>(sample.num_seeds);
  if (has_labels_ && rows) made.label_sets = arrays.take<float>(sample.num_seeds * batch.num_classes);
  if (merges()) made.edge_index = arrays.take<std::int64_t>(2 * sample.num_edges());
  if (merges() && edge_ids_) lay_out_edge_ids(sample, arrays, batch);
  batch.input_ids = made.input_ids;
  batch.labels = made.labels;
  batch.label_sets = made.label_sets;
  batch.edge_index = made.edge_index;
  return made;
}

void BatchCopier::lay_out_lists(const sampling::Block& from, Carver& arrays, sampling::Block& to) const {
  to.indptr = arrays.take_copy(from.indptr, from.num_dst + 1);
  to.indices = arrays.take_copy(from.indices, from.num_edges);
  if (edge_ids_) to.edge_ids = arrays.take_copy(from.edge_ids, from.num_edges);
  if (from.transposed_indptr == nullptr) return;
  to.transposed_indptr = arrays.take_copy(from.transposed_indptr, from.num_src + 1);
  to.transposed_indices = arrays.take_copy(from.transposed_indices, from.num_edges);
}

/// Those of all hops, in the order of the hops.
void BatchCopier::lay_out_edge_ids(const sampling::MiniBatch& sample, Carver& arrays,
                                   NodeBatch& batch) const {
  auto* edge_ids = arrays.take<EdgeId>(sample.num_edges());
  batch.edge_ids = edge_ids;
  for (auto block = sample.blocks.rbegin(); block != sample.blocks.rend(); ++block) {
    arrays.copy(edge_ids, block->edge_ids, block->num_edges);
    edge_ids += block->num_edges;
  }
}

void BatchCopier::make(const LoadedBatch& from, const Made& made, const NodeBatch& batch,
                       const cuda::Stream& stream) {
  cuda::copy_async(made.input_ids, from.seed_places.data(), from.seed_places.size_bytes(), stream);
  cuda::copy_async(made.link_sources, from.link_sources.data(), from.link_sources.size_bytes(), stream);
  cuda::copy_async(made.link_destinations, from.link_destinations.data(), from.link_destinations.size_bytes(),
                   stream);
  cuda::copy_async(made.link_groups, from.link_groups.data(), from.link_groups.size_bytes(), stream);
  const PackedLabels labels{from.targets, batch.num_seeds()};
  if (made.labels != nullptr && batch.num_seeds() > 0) widen_labels(labels, made.labels, stream);
  if (made.label_sets != nullptr && targets_)
    cuda::copy_async(made.label_sets, from.targets, at(labels.count * batch.num_classes) * sizeof(float),
                     stream);
  else if (made.label_sets != nullptr && batch.num_seeds() > 0)
    expand_label_sets(labels, batch.num_classes, made.label_sets, stream);
  if (made.edge_index == nullptr) return;
  std::int64_t* sources = made.edge_index;
  for (auto block = from.sample.blocks.rbegin(); block != from.sample.blocks.rend(); ++block) {
    expand_edges(*block, {.sources = sources, .destinations = sources + batch.num_edges()}, stream,
                 graph_->runtime().caller_pool());
    sources += block->num_edges;
  }
}

}  // namespace strata::batches
