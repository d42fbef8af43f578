// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "strata/sampling/block.hpp"

namespace strata::nn {

/// Edges that have rows and scores of their own.
struct ScoredEdges {
  at::Tensor rows;        ///< [edges, heads * cols] f32
  at::Tensor src_scores;  ///< [edges, heads]
  at::Tensor dst_scores;  ///< [num_dst, heads]; undefined: zeros
};

struct AttentionOver {
  sampling::Block block;                   ///< edges -> dst rows, with transpose
  std::shared_ptr<const void> keep_alive;  ///< what owns the block's arrays
  std::int64_t heads = 1;
  float slope = 1;  ///< of the leaky ReLU of scores below 0; 1: none
};

/// [num_dst, heads * cols]: for each dst row, the sum of its edges' rows, weighted by a softmax over the sums of
/// their scores. Differentiable in all three.
at::Tensor attend_over_rows(const ScoredEdges& edges, const AttentionOver& over);

}  // namespace strata::nn
