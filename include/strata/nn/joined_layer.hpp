// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

/// A SAGE layer for models that are written elsewhere, for example in Python.
namespace strata::nn {

/// The edges of a bipartite graph with S sources, the first D of them destinations, on the device of
/// the rows.
struct LayerEdges {
  at::Tensor indptr, indices;          ///< int64 [D + 1] and int32 [E]: the in-edges of each destination
  at::Tensor out_indptr, out_indices;  ///< int64 [S + 1] and int32 [E]; undefined: x needs no gradient

  std::int64_t num_dst() const { return indptr.size(0) - 1; }
};

struct LayerWeights {
  at::Tensor neighbors, root;  ///< [out, F]
  at::Tensor bias;             ///< [out], or undefined
};

struct LayerRule {
  bool mean = true;   ///< the mean of the in-neighbors; else their sum
  bool relu = false;  ///< of x, applied where x is read, and to its gradient where that is written
};

/// out[v] = neighbors (mean or sum of the in-neighbors' rows) + root x[v] + bias, [D, out], in one node of
/// the autograd graph, with one matrix product. Where a model has ReLU between layers, the second layer's
/// `relu` makes it cost no pass over the rows.
///
/// x is [S, F], float32 or bfloat16, on the cpu or a GPU, and weights have its type; sums are made in
/// float32. Asynchronous on libtorch's current stream. Each row depends only on its own edges, taken in their
/// order: results have the same bits in every run. Gradients of gradients are made of libtorch's own
/// operators. Throws c10::Error if a gradient of x is asked for without out_indptr, if lists are not
/// contiguous, and for a GPU's rows in a build without CUDA. Shapes are not checked.
at::Tensor joined_layer(const at::Tensor& x, const LayerWeights& weights, const LayerEdges& edges,
                        const LayerRule& rule);

}  // namespace strata::nn
