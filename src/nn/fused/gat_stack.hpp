// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "strata/nn/model.hpp"

namespace strata::nn {

/// Parameters of a GAT layer.
struct GatWeights {
  at::Tensor attention_src, attention_dst;  ///< [1, heads, head_cols]
  at::Tensor weight;                        ///< [heads * head_cols, in]
  at::Tensor bias;                          ///< [heads * head_cols]; in the last layer [head_cols]
};

struct GatStackOptions {
  double dropout = 0, attention_dropout = 0;
  bool bf16 = false;  ///< use bf16 for sums, activations and their gradients, and matrix products
};

struct GatStackShape {
  std::int64_t in_cols = 0, hidden = 0, heads = 1;  ///< heads: the most of a layer
  int num_layers = 1;
};

/// Whether gat_stack() is possible, and less work than mapping the rows of all src nodes before summing them.
bool gat_stack_pays(const GatStackShape& shape);

/// All layers of a GAT model in one node of the autograd graph, on a GPU. A layer has one sum over the edges
/// per head, which also computes scores and softmax; one matrix product per head, only for the dst nodes; and
/// one pass for bias, ReLU and dropout. The heads are concatenated, and averaged in the last layer. The input
/// rows need no gradient.
///
/// `rows` are the input rows: those of the batch's src nodes, or of all nodes where the input layer has
/// global indices (and attention dropout is 0). The backward pass reads them again. Blocks may be padded and have a stride; all but the input layer's have a transpose.
at::Tensor gat_stack(const at::Tensor& rows, const std::vector<GatWeights>& layers,
                     const sampling::MiniBatch& batch, const GatStackOptions& options, const Pass& pass);

}  // namespace strata::nn
