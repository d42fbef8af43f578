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
  bool bf16 = false;   ///< joined rows, products and their gradients; sums and parameters stay f32
};

/// All layers of a SAGE model with mean aggregation in one node of the autograd graph, on a GPU: a layer is
/// one sum over the edges and one matrix product that maps mean and own row at once. ReLU and dropout are
/// applied where the next layer reads, their gradient is part of the sum over the transpose. The input's rows
/// need no gradient.
///
/// The backward pass adds the parameters' gradients to their .grad itself, in one pass over all of them; only
/// where there is none they are returned to the engine.
///
/// `table` holds the input rows: those of the batch's src nodes, or of all nodes where the input layer has
/// global indices. Blocks may be padded and have a stride; all but the input layer's have a transpose.
/// Returns f32 [seeds, classes].
at::Tensor sage_stack(const InputTable& table, const std::vector<SageWeights>& layers,
                      const sampling::MiniBatch& batch, const StackOptions& options, const Pass& pass);

}  // namespace strata::nn
