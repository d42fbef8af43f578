// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "strata/sampling/block.hpp"

/// Blocks made by hand, for tests of what reads them.
namespace strata::test {

struct RandomBlock {
  Count num_dst = 0, num_src = 0;
  int max_degree = 8;  ///< degrees are uniform in [0, max_degree]; parallel edges occur
  bool transpose = true;
  std::uint64_t seed = 1;
};

/// A Block with its memory; an owner. The tensors may lie on any device.
struct OwnedBlock {
  Count num_dst = 0, num_src = 0;
  at::Tensor indptr, indices, transposed_indptr, transposed_indices;
  at::Tensor original_ids;  ///< [num_src] distinct
  at::Tensor in_degrees;    ///< [num_src], at least the sampled degree

  sampling::Block view() const;
  OwnedBlock to(const c10::Device& device) const;
  at::Tensor edge_dst() const;  ///< [num_edges] i64
};

OwnedBlock random_block(const RandomBlock& options);

/// From lists of in-neighbors: neighbors[v] of dst node v. In-degrees are the lists' lengths.
OwnedBlock block_of(const std::vector<std::vector<std::int32_t>>& neighbors, Count num_src);

/// f32, uniform in [-1, 1), the same for the same seed.
at::Tensor random_rows(Count rows, Count cols, std::uint64_t seed);

}  // namespace strata::test
