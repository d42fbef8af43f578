// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/util/types.hpp"

namespace strata::nn {

/// Sums of each column over pieces of rows, which remain to be added up to a sum over all rows.
struct Pieces {
  const float* sums;  // [num, cols]
  Count num, cols;
};

/// The sum of a column over all pieces, always in the same order. A block takes kColumns columns; each of its
/// kGroups groups of threads takes every kGroups-th piece, and the first group gets the sums. Whole blocks
/// call it, once per kernel.
template <int kBlockThreads, int kColumns, int kInFlight>
__device__ inline float sum_of_pieces(const Pieces& pieces, Count column) {
  constexpr int kGroups = kBlockThreads / kColumns;
  __shared__ float shared[kBlockThreads];
  float sum = 0.0f;
  if (column < pieces.cols) {
#pragma unroll kInFlight
    for (Count piece = threadIdx.x / kColumns; piece < pieces.num; piece += kGroups)
      sum += pieces.sums[piece * pieces.cols + column];
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kColumns) return 0.0f;
  for (int group = 1; group < kGroups; ++group) sum += shared[group * kColumns + threadIdx.x];
  return sum;
}

}  // namespace strata::nn
