// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "operators/torch_chunk_tensor.hpp"

namespace strata::dgs {

/// The arguments of a call of the sampler besides the arrays.
struct SampleArguments {
  at::Tensor seeds;
  std::int64_t num_picks = 0;
  bool replace = false;
};
using Edges = std::tuple<at::Tensor, at::Tensor>;  ///< (rows, cols): seeds and their neighbors, as ids

/// The picks of each seed as a list: int64 [seeds + 1] where the lists begin, and their neighbors as ids.
struct NeighborLists {
  at::Tensor starts, neighbors;
};
/// Whether each list ends with the seed itself; `starts` do not count it.
enum class ListEnd { neighbor, seed };

/// Samples from plain tensors on the device of `indptr`. `probs` may be undefined.
Edges sample(const SampleArguments& arguments, const at::Tensor& indptr, const at::Tensor& indices,
             const at::Tensor& probs);
/// A graph in ChunkTensors; a view. `probs` may be null.
struct ChunkedGraph {
  const TorchChunkTensor& indptr;
  const TorchChunkTensor& indices;
  const TorchChunkTensor* probs = nullptr;
};
Edges sample(const SampleArguments& arguments, const ChunkedGraph& graph);
NeighborLists sample_lists(const SampleArguments& arguments, const ChunkedGraph& graph, ListEnd end);

}  // namespace strata::dgs
