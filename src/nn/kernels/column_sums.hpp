// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/nn/edge_ops.hpp"

struct CUstream_st;

namespace strata::nn {

void column_sums_cpu(const ColumnSums& sums);
void column_sums_cuda(const ColumnSums& sums, CUstream_st* stream);  ///< CUDA builds only

}  // namespace strata::nn
