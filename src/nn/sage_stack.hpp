#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "strata/nn/model.hpp"

namespace strata::nn {

/// Parameters of a SAGE layer.
struct SageWeights {
  at::Tensor neighbours, root;  ///< [out, in]
  at::Tensor bias;              ///< [out]
};

/// All layers of a SAGE model with mean aggregation in one node of the autograd graph, on a GPU: a layer is
/// one sum over the edges, one matrix product that maps mean, own row and bias at once, and one pass for ReLU
/// and dropout, whose gradient is part of the sum over the transpose. The input's rows need no gradient.
///
/// `table` holds the input rows: those of the batch's src nodes, or of all nodes where the input layer has
/// global indices. Blocks may be padded and in slots; all but the input layer's have a transpose.
at::Tensor sage_stack(const RowTable& table, const std::vector<SageWeights>& layers,
                      const sampling::MiniBatch& batch, double dropout, const Pass& pass);

}  // namespace strata::nn
