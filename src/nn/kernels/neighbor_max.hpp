// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/types.hpp"

struct CUstream_st;

/// The largest value per column over the in-neighbors of a node, over raw pointers. As in `kernels.hpp`, all
/// memory lies on one device, nothing is allocated, and any number of threads gives the same bits.
namespace strata::nn {

/// out[v, c] = max over the edges of v of in[u, c], or 0 if v has none; winners[v, c] = the first u that
/// attains it, or -1 if v has none. NaN wins. Edges of weight 0 are skipped.
struct NeighborMax {
  Count rows = 0, cols = 0;
  const Count* indptr = nullptr;  ///< [rows + 1]
  const std::int32_t* indices = nullptr;
  const float* weights = nullptr;   ///< parallel to `indices`; null: no weight is 0
  const float* in = nullptr;        ///< [.., cols]
  float* out = nullptr;             ///< [rows, cols]
  std::int32_t* winners = nullptr;  ///< [rows, cols]; null if no gradient is wanted
};

/// grad_in[u, c] = sum of grad_out[v, c] over the distinct out-neighbors v with winners[v, c] == u.
struct NeighborMaxGrad {
  Count rows = 0, cols = 0;       ///< rows: one per src node
  const Count* indptr = nullptr;  ///< [rows + 1] of the transpose
  /// Dst nodes, ascending in each row, so that parallel edges are adjacent.
  const std::int32_t* indices = nullptr;
  const std::int32_t* winners = nullptr;
  const float* grad_out = nullptr;
  float* grad_in = nullptr;  ///< [rows, cols]
};

void neighbor_max_cpu(const NeighborMax& max);
void neighbor_max_grad_cpu(const NeighborMaxGrad& grad);
void neighbor_max_cuda(const NeighborMax& max, CUstream_st* stream);            ///< CUDA builds only
void neighbor_max_grad_cuda(const NeighborMaxGrad& grad, CUstream_st* stream);  ///< CUDA builds only

}  // namespace strata::nn
