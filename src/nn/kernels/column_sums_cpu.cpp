// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/edge_kernels.hpp"
#include "kernels/simd.hpp"

namespace strata::nn {

void column_sums_cpu(const ColumnSums& sums) {
  std::fill_n(sums.out, sums.cols, 0.0f);
  run_vectorized(
      [&sums](Count begin, Count end) {
        float* __restrict out = sums.out;
        for (Count row = begin; row < end; ++row) {
          const float* __restrict in = sums.in + row * sums.cols;
          for (Count c = 0; c < sums.cols; ++c) out[c] += in[c];
        }
      },
      0, sums.rows);
}

}  // namespace strata::nn
