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
  at::Tensor bias;                          ///< [heads * head_cols], of the last layer [head_cols]
};

struct GatStackOptions {
  std::int64_t heads = 1;
  double dropout = 0, attention_dropout = 0;
  bool bf16 = false;  ///< sums, activations and their gradients, and matrix products
};

struct GatStackShape {
  std::int64_t in_cols = 0, hidden = 0, heads = 1;
  int num_layers = 1;
};

/// Is gat_stack() possible, and less work than mapping the rows of all src nodes before they are summed?
bool gat_stack_pays(const GatStackShape& shape);

/// All layers of a GAT model in one node of the autograd graph, on a GPU. A layer is one sum over the edges a
/// head, with scores and softmax found on the way, a matrix product a head of the dst nodes alone, and one
/// pass for bias, ReLU and dropout. The heads lie side by side, in the last layer they are averaged. The
/// input's rows need no gradient.
///
/// `table` holds the input rows: those of the batch's src nodes, or of all nodes where the input layer has
/// global indices (and attention dropout is 0). The backward pass reads them again: `owner` is kept until
/// then. Blocks may be padded and have a stride; all but the input layer's
/// have a transpose.
at::Tensor gat_stack(const InputTable& table, const std::vector<GatWeights>& layers,
                     const sampling::MiniBatch& batch, const GatStackOptions& options, const Pass& pass,
                     const at::Tensor& owner = {});

}  // namespace strata::nn
