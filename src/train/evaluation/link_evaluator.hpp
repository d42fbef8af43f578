// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "evaluation/evaluator.hpp"
#include "evaluation/node_chunks.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/graph/edge_split.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

/// Exact scores of the edges that the graph holds out: the outputs of all nodes layer by layer, then each edge
/// against destinations that are drawn by the keys of its ends, so that no score depends on ranks or parts.
class LinkEvaluator final : public Evaluator {
 public:
  /// `config`, `exact` and the graph outlive it. `global_ids`: those of all nodes by original ids.
  LinkEvaluator(const EvaluationContext& context, const TrainConfig& config, LayerwiseEvaluator& exact,
                std::vector<NodeId> global_ids);
  Evaluation evaluate(nn::BlockModel& model) override;
  void close() override { communicator_.close(); }

 private:
  std::vector<store::HeldOutEdge> share_of(graph::Split split) const;
  Scores score(const tensor::ChunkTensor& outputs, graph::Split split);
  void draw(const store::HeldOutEdge& edge, std::span<NodeId> negatives) const;
  at::Tensor scores_of(std::span<const store::HeldOutEdge> edges, batches::RowFetcher& outputs, Count cols);

  EvaluationContext context_;
  const TrainConfig& config_;
  LayerwiseEvaluator& exact_;
  std::vector<NodeId> global_ids_;
  comm::Communicator communicator_;
  Device device_;
};

}  // namespace strata::train
