// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "loader/array_copies.hpp"
#include "loader/batch_memory.hpp"
#include "strata/batches/batch.hpp"
#include "strata/batches/graph.hpp"
#include "strata/batches/node_loader.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::batches {

/// Copies sampled batches out of their samplers' memory into memory of their own. One thread calls it.
class BatchCopier {
 public:
  BatchCopier(std::shared_ptr<Graph> graph, NodeLoaderOptions::Form form, bool has_labels);

  bool copies_edge_ids() const { return edge_ids_; }  ///< where the graph has them
  const BatchMemory& memory() const { return memory_; }

  /// Fills `batch` with copies, except for features; at once on the cpu, else on `stream`. The memory is the
  /// batch's.
  std::shared_ptr<BatchPiece> copy(const LoadedBatch& from, NodeBatch& batch, const cuda::Stream& stream);

 private:
  bool merges() const { return form_ == NodeLoaderOptions::Form::merged; }
  /// Arrays of a batch that are more than a copy; null where it has none.
  struct Made {
    Count* input_ids = nullptr;
    std::int64_t *link_sources = nullptr, *link_destinations = nullptr, *link_groups = nullptr;
    std::int64_t* labels = nullptr;
    float* label_sets = nullptr;
    std::int64_t* edge_index = nullptr;
  };
  Made lay_out(const LoadedBatch& from, Carver& arrays, NodeBatch& batch) const;
  void lay_out_lists(const sampling::Block& from, Carver& arrays, sampling::Block& to) const;
  void lay_out_edge_ids(const sampling::MiniBatch& sample, Carver& arrays, NodeBatch& batch) const;
  void make(const LoadedBatch& from, const Made& made, const NodeBatch& batch, const cuda::Stream& stream);

  std::shared_ptr<Graph> graph_;
  NodeLoaderOptions::Form form_;
  bool edge_ids_, has_labels_, label_sets_, targets_;
  BatchMemory memory_;
};

}  // namespace strata::batches
