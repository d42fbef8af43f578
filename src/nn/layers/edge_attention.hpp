// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "kernels/kernels.hpp"
#include "strata/sampling/block.hpp"

namespace strata::nn {

/// What attention goes over, and with which rule.
struct AttentionOver {
  sampling::Block block;                   ///< attended rows -> dst rows, with transpose
  std::shared_ptr<const void> keep_alive;  ///< what owns the block's arrays
  std::int64_t heads = 1;
  float slope = 1;                      ///< of the leaky ReLU of scores below 0; 1: none
  EdgeDropout dropout = {};             ///< of the softmax's weights
  std::vector<at::Tensor> arrays = {};  ///< of `dropout`
};

/// Rows with scores of their own.
struct ScoredRows {
  at::Tensor rows;        ///< [num_src, heads * cols] f32 or bf16
  at::Tensor src_scores;  ///< [num_src, heads] f32
  at::Tensor dst_scores;  ///< [num_dst, heads] f32
};

/// [num_dst, heads * cols] of the rows' type: for each dst row, the sum of its in-neighbors, weighted by a softmax
/// over the sums of their scores. Arithmetic is f32. Differentiable in all three.
at::Tensor attend_over_rows(const ScoredRows& scored, const AttentionOver& over);

/// The same with the dot products of queries [num_dst, heads * cols] and keys as scores; rows
/// [num_src, 2 * heads * cols] have the keys before the values. Both have the same type. Differentiable in both.
at::Tensor attend_by_dots(const at::Tensor& queries, const at::Tensor& rows, const AttentionOver& over);

}  // namespace strata::nn
