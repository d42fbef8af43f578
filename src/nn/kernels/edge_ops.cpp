// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/edge_ops.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/attention.hpp"
#include "kernels/edge_kernels.hpp"
#include "kernels/kernels.hpp"
#include "strata/cuda/device.hpp"

namespace strata::nn {
namespace {

static_assert(sizeof(BatchKey) == 2 * sizeof(std::uint64_t));

const Kernels& kernels_on([[maybe_unused]] const cuda::Stream& stream) {
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return cuda_kernels();
#endif
  return cpu_kernels();
}

const AttentionKernels& attention_on([[maybe_unused]] const cuda::Stream& stream) {
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return cuda_attention_kernels();
#endif
  return cpu_attention_kernels();
}

template <typename T>
void sum_as(const EdgeSum& sum, const cuda::Stream& stream) {
  const T* in = static_cast<const T*>(sum.in);
  kernels_on(stream).sparse_sum(SparseSumOf<T, T>{.rows = sum.edges.rows,
                                                  .cols = sum.cols,
                                                  .indptr = sum.edges.indptr,
                                                  .indices = sum.edges.indices,
                                                  .in = in,
                                                  .edge_scale = sum.edge_scale,
                                                  .row_scale = sum.row_scale,
                                                  .col_scale = sum.col_scale,
                                                  .self = sum.num_self > 0 ? in : nullptr,
                                                  .self_scale = sum.self_scale,
                                                  .num_self = sum.num_self,
                                                  .skips_loops = sum.skips_loops,
                                                  .out = static_cast<T*>(sum.out)},
                                stream.get());
}

template <typename T>
void join_as(const EdgeJoin& join, const cuda::Stream& stream) {
  const T* in = static_cast<const T*>(join.in);
  kernels_on(stream).sparse_sum(SparseSumOf<T, T>{.rows = join.edges.rows,
                                                  .cols = join.cols,
                                                  .indptr = join.edges.indptr,
                                                  .indices = join.edges.indices,
                                                  .in = in,
                                                  .row_scale = join.row_scale,
                                                  .self = in,
                                                  .num_self = join.edges.rows,
                                                  .beside = true,
                                                  .out = static_cast<T*>(join.out)},
                                stream.get());
}

template <typename T>
void join_grad_as(const EdgeJoinGrad& grad, const cuda::Stream& stream) {
  const T* in = static_cast<const T*>(grad.grad_out);
  kernels_on(stream).sparse_sum(SparseSumOf<T, T>{.rows = grad.out_edges.rows,
                                                  .cols = grad.cols,
                                                  .indptr = grad.out_edges.indptr,
                                                  .indices = grad.out_edges.indices,
                                                  .in = in,
                                                  .in_pitch = 2 * grad.cols,
                                                  .col_scale = grad.row_scale,
                                                  .self = in + grad.cols,
                                                  .num_self = grad.num_dst,
                                                  .out = static_cast<T*>(grad.grad_in)},
                                stream.get());
}

}  // namespace

void sum_over_edges(const EdgeSum& sum, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  if (sum.dtype == DType::bf16)
    sum_as<Bf16>(sum, stream);
  else
    sum_as<float>(sum, stream);
}

void inverse_counts(const EdgeLists& edges, float* inverse, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  kernels_on(stream).mean_scales({.num_dst = edges.rows, .indptr = edges.indptr}, inverse, stream.get());
}

void join_sums(const EdgeJoin& join, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  if (join.dtype == DType::bf16)
    join_as<Bf16>(join, stream);
  else
    join_as<float>(join, stream);
}

void join_sums_grad(const EdgeJoinGrad& grad, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  if (grad.dtype == DType::bf16)
    join_grad_as<Bf16>(grad, stream);
  else
    join_grad_as<float>(grad, stream);
}

void column_sums(const ColumnSums& sums, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return column_sums_cuda(sums, stream.get());
#endif
  column_sums_cpu(sums);
}

void max_over_edges(const EdgeMax& max, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return neighbor_max_cuda(max, stream.get());
#endif
  neighbor_max_cpu(max);
}

void max_over_edges_grad(const EdgeMaxGrad& grad, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return neighbor_max_grad_cuda(grad, stream.get());
#endif
  neighbor_max_grad_cpu(grad);
}

EdgeDropout edge_dropout(double probability, const std::uint64_t* key, const NodeId* ids) {
  const auto threshold = static_cast<std::uint32_t>(std::lround(probability * 65536.0));
  return {.rule = {.key = {},
                   .threshold = std::min(threshold, 65535u),
                   .ids = ids,
                   .device_key = reinterpret_cast<const BatchKey*>(key)}};
}

void score_heads(const HeadScores& scores, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  attention_on(stream).head_dots(scores, stream.get());
}

void attend_over_edges(const EdgeAttentionForward& pass, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  attention_on(stream).forward(pass, stream.get());
}

void attend_over_edges_grad(const EdgeAttentionGrad& pass, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  attention_on(stream).backward(pass, stream.get());
}

void attend_by_dots(const DotAttentionForward& pass, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  attention_on(stream).forward(pass, stream.get());
}

void attend_by_dots_grad(const DotAttentionGrad& pass, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  attention_on(stream).backward(pass, stream.get());
}

}  // namespace strata::nn
