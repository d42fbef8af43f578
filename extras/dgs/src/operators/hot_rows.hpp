// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

#include "operators/torch_chunk_tensor.hpp"

namespace strata::dgs {

/// (keys, values) with room between them; opaque to scripts.
using HashMap = std::tuple<at::Tensor, at::Tensor>;
HashMap create_hash_map(const at::Tensor& keys, const at::Tensor& values);

/// The request for rows in a cache and on the host.
struct FetchArguments {
  at::Tensor cpu;  ///< all rows; a GPU reads them in place if they are pinned
  at::Tensor ids;
  HashMap map;  ///< from ids to rows of the cache
};
at::Tensor fetch(const FetchArguments& arguments, const at::Tensor& cache);
at::Tensor fetch(const FetchArguments& arguments, const TorchChunkTensor& cache);

}  // namespace strata::dgs
