// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "evaluation/evaluator.hpp"
#include "evaluation/neighbor_lists.hpp"
#include "evaluation/node_chunks.hpp"
#include "stop_poll.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/nn/model.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::train {

/// Whether the layer reads rows that were projected when they were computed, as it does unless projected
/// rows are longer. A node's row is then projected once, not with every chunk that needs it.
bool reads_projected(const nn::BlockModel& model, int layer);

/// One layer of exact evaluation.
struct LayerPass {
  nn::BlockModel* model = nullptr;
  int layer = 0;
  const tensor::ChunkTensor* table = nullptr;
  LayerNodes table_nodes;                         ///< nodes whose rows the table holds
  LayerNodes nodes;                               ///< nodes that the layer is applied to
  sampling::MiniBatchSampler* sampler = nullptr;  ///< of all neighbors
  const LearnedRows* learned = nullptr;           ///< input rows that the table lacks; null: none
  bool by_weight = false;                         ///< edges count by NeighborLists::shares()
};

/// Applies a layer to this rank's share of its machine's nodes, chunk by chunk. An owner of the buffers.
class LayerRunner {
 public:
  static constexpr Count kMaxChunkNodes = 65536;

  /// Both must outlive it.
  LayerRunner(const EvaluationContext& context, const comm::Communicator& communicator);

  /// Takes a chunk's nodes and what is kept of their outputs: of a hidden layer, the rows that the next layer
  /// reads, on the device that computed them; of the last layer, the logits in host memory. It gets a node
  /// whose list came in pieces once.
  using Consume = std::function<void(const NodeChunk&, const float* rows)>;
  /// Collective over all ranks. Returns false on all of them if the poll ended it.
  bool apply(const LayerPass& pass, StopPoll& poll, const Consume& consume);

  void release_buffers();

 private:
  /// Reads a chunk's input; collective, even where the chunk is empty and the result is not used.
  using Read = std::function<nn::ExactInput(const NodeChunk&, const cuda::Stream&)>;
  bool apply(const LayerPass& pass, const std::vector<NodeChunk>& chunks, const Read& read, StopPoll& poll,
             const Consume& consume);
  std::vector<NodeChunk> chunks(const LayerPass& pass, const ChunkCost& cost) const;
  bool in_place(const LayerPass& pass) const;
  bool apply_in_place(const LayerPass& pass, StopPoll& poll, const Consume& consume);
  bool apply_gathered(const LayerPass& pass, StopPoll& poll, const Consume& consume);
  NeighborLists lists(const LayerPass& pass) const;
  batches::RowExchangeContext row_exchange(std::span<const NodeId> machine_offsets) const;
  const float* kept_rows(const LayerPass& pass, const at::Tensor& output, const cuda::Stream& stream);
  bool distributed() const { return context_.ranks.on_several_machines(); }

  const EvaluationContext& context_;
  const comm::Communicator& communicator_;
  Device device_;
  Count chunk_bytes_;
  cuda::Array<NodeId> ranks_;
  cuda::Array<float> input_;
  at::Tensor kept_;  // kept_rows() points into it
};

}  // namespace strata::train
