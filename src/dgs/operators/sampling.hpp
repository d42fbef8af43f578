// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "operators/torch_chunk_tensor.hpp"

namespace strata::dgs {

/// What a call of the sampler was given besides the arrays.
struct SampleArguments {
  at::Tensor seeds;
  std::int64_t num_picks = 0;
  bool replace = false;
};
using Edges = std::tuple<at::Tensor, at::Tensor>;  ///< (rows, cols): seeds and their neighbors, as ids

/// From plain tensors on the device of `indptr`. `probs` may be undefined.
Edges sample(const SampleArguments& arguments, const at::Tensor& indptr, const at::Tensor& indices,
             const at::Tensor& probs);
/// From ChunkTensors; `probs` may be null.
Edges sample(const SampleArguments& arguments, const TorchChunkTensor& indptr,
             const TorchChunkTensor& indices, const TorchChunkTensor* probs);

}  // namespace strata::dgs
