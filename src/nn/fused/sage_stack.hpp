// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "strata/nn/model.hpp"

namespace strata::nn {

/// Parameters of a SAGE layer.
struct SageWeights {
  at::Tensor neighbors, root;  ///< [out, in]
  at::Tensor bias;             ///< [out]
};

struct StackOptions {
  double dropout = 0;  ///< after each hidden layer
  /// Use bf16 for joined rows, products and their gradients; sums and parameters stay f32.
  bool bf16 = false;
};

/// All layers of a SAGE model with mean aggregation in one node of the autograd graph, on a GPU. A layer is
/// one sum over the edges and one matrix product that maps mean and own row together. ReLU and dropout are
/// applied when the next layer reads, and their gradient is part of the sum over the transpose. The input
/// rows need no gradient.
///
/// The backward pass itself adds the parameters' gradients to their .grad, in one pass over all of them. A
/// parameter without .grad gets its gradient from the autograd engine.
///
/// `rows` are the input rows: those of the batch's src nodes, or those of all nodes if the input layer has
/// global indices. Blocks may be padded and have a stride; all except the input layer's have a transpose.
/// Returns f32 [seeds, classes].
at::Tensor sage_stack(const at::Tensor& rows, const std::vector<SageWeights>& layers,
                      const sampling::MiniBatch& batch, const StackOptions& options, const Pass& pass);

}  // namespace strata::nn
