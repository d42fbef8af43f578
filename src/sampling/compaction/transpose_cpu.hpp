// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/sampling/block.hpp"

namespace strata::sampling {

/// Where a transpose is written: indptr [num_src + 1], indices [num_edges].
struct TransposeOutput {
  Count* indptr = nullptr;
  std::int32_t* indices = nullptr;
};

/// Writes the out-edges of every src node of a block in host memory, as ascending local ids of dst nodes, by
/// a counting sort.
void transpose(const Block& block, const TransposeOutput& out);

}  // namespace strata::sampling
