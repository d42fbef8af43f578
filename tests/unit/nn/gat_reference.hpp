// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include "strata/nn/model.hpp"
#include "support/blocks.hpp"

namespace strata::test {

struct GatShape {
  std::int64_t heads = 1;
  bool concatenates = false;  ///< hidden layers do; the last takes the mean of its heads
};

/// PyG's GATConv of a model's first layer in f64, by libtorch's own differentiable operations: no edge from a
/// node to itself but the one that is added. `kept` [edges of attention_edges, heads], or undefined: what
/// attention weights are multiplied by.
at::Tensor reference_gat(nn::BlockModel& model, const GatShape& shape, const at::Tensor& x,
                         const OwnedBlock& block, const at::Tensor& kept = {});

/// The src and dst nodes of the edges over which attention is taken: the block's, then one of each dst node
/// to itself; i64.
struct EdgeEnds {
  at::Tensor src, dst;
};
EdgeEnds attention_edges(const OwnedBlock& block);

}  // namespace strata::test
