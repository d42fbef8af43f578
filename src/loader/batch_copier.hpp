// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "array_copies.hpp"
#include "batch_memory.hpp"
#include "carver.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/loader/batch.hpp"
#include "strata/loader/graph.hpp"
#include "strata/loader/node_loader.hpp"
#include "strata/sampling/block.hpp"

namespace strata::loader {

/// Copies sampled batches out of their samplers' memory into memory of their own. One thread calls it.
class BatchCopier {
 public:
  BatchCopier(std::shared_ptr<Graph> graph, NodeLoaderOptions::Form form);

  bool copies_edge_ids() const { return edge_ids_; }  ///< where the graph has them
  const BatchMemory& memory() const { return memory_; }

  struct Source {
    const sampling::MiniBatch& sample;
    const std::int32_t* labels = nullptr;     ///< of the seeds, as LoadedBatch::labels
    std::span<const Count> seed_places = {};  ///< as LoadedBatch::seed_places; empty: not known
    bool has_labels = false;
  };
  /// Fills `batch`, whose device and numbers of nodes, seeds and classes are set, with copies; at once on the
  /// cpu, else on `stream`. The memory is the batch's.
  std::shared_ptr<BatchPiece> copy(const Source& source, NodeBatch& batch, const cuda::Stream& stream);

 private:
  bool merges() const { return form_ == NodeLoaderOptions::Form::merged; }
  void lay_out(const Source& source, Carver& arrays, NodeBatch& batch) const;
  void fill(const Source& source, NodeBatch& batch, const cuda::Stream& stream);
  void merge(const sampling::MiniBatch& sample, MergedEdges& merged, std::vector<ArrayCopy>& copies,
             const cuda::Stream& stream);
  static void add_blocks(const sampling::MiniBatch& sample, const NodeBatch& batch,
                         std::vector<ArrayCopy>& copies);

  std::shared_ptr<Graph> graph_;
  NodeLoaderOptions::Form form_;
  bool edge_ids_, label_sets_;
  BatchMemory memory_;
};

}  // namespace strata::loader
