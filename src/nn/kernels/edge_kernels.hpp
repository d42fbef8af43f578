// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/nn/edge_ops.hpp"

struct CUstream_st;

namespace strata::nn {

void neighbor_max_cpu(const EdgeMax& max);
void neighbor_max_grad_cpu(const EdgeMaxGrad& grad);
void column_sums_cpu(const ColumnSums& sums);
// CUDA builds only:
void neighbor_max_cuda(const EdgeMax& max, CUstream_st* stream);
void neighbor_max_grad_cuda(const EdgeMaxGrad& grad, CUstream_st* stream);
void column_sums_cuda(const ColumnSums& sums, CUstream_st* stream);
void dot_attention_cuda(const DotAttentionForward& pass, CUstream_st* stream);
void dot_attention_grad_cuda(const DotAttentionGrad& pass, CUstream_st* stream);

}  // namespace strata::nn
