// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "evaluation/evaluator.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::train {

/// A model's outputs for all nodes, in the host memory of the machines that own them. An owner.
class NodeOutputs {
 public:
  /// Computes them layer by layer; null if that was stopped. `context`, `communicator` and `global_ids`, those of all
  /// nodes by original ids, outlive it. Collective.
  static std::unique_ptr<NodeOutputs> compute(const EvaluationContext& context,
                                              const comm::Communicator& communicator,
                                              std::span<const NodeId> global_ids, LayerwiseEvaluator& exact,
                                              nn::BlockModel& model);

  /// [ids, cols] f32 on the device of the rank, of nodes by original ids. Collective.
  at::Tensor of(std::span<const NodeId> original_ids);
  Count cols() const { return rows_.spec().cols; }
  void close();  ///< collective

 private:
  NodeOutputs(const EvaluationContext& context, const comm::Communicator& communicator,
              std::span<const NodeId> global_ids, Count cols);

  const EvaluationContext& context_;
  std::span<const NodeId> global_ids_;
  Device device_;
  tensor::ChunkTensor rows_;
  std::optional<batches::RowFetcher> fetcher_;
};

}  // namespace strata::train
