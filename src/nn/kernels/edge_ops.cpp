// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/edge_ops.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/attention.hpp"
#include "kernels/column_sums.hpp"
#include "kernels/kernels.hpp"
#include "kernels/neighbor_max.hpp"
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

DropoutRule rule_of(const EdgeAttention& over) {
  const auto threshold = static_cast<std::uint32_t>(std::lround(over.dropout * 65536.0));
  return {.key = {},
          .hop = 0,
          .threshold = std::min(threshold, 65535u),
          .ids = over.ids,
          .device_key = reinterpret_cast<const BatchKey*>(over.key)};
}

Attention attention_of(const EdgeAttention& over, const EdgeLists& out_edges) {
  return {.num_dst = over.edges.rows,
          .num_src = over.num_src,
          .heads = over.heads,
          .head_cols = over.head_cols,
          .indptr = over.edges.indptr,
          .indices = over.edges.indices,
          .edge_weights = nullptr,
          .out_indptr = out_edges.indptr,
          .out_indices = out_edges.indices,
          .rows = over.rows,
          .src_scores = over.src_scores,
          .dst_scores = over.dst_scores,
          .dropout = rule_of(over),
          .slope = over.slope,
          .self_loops = over.self_loops};
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
  const NeighborMax all{.rows = max.edges.rows,
                        .cols = max.cols,
                        .indptr = max.edges.indptr,
                        .indices = max.edges.indices,
                        .in = max.in,
                        .out = max.out,
                        .winners = max.winners};
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return neighbor_max_cuda(all, stream.get());
#endif
  neighbor_max_cpu(all);
}

void max_over_edges_grad(const EdgeMaxGrad& grad, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  const NeighborMaxGrad all{.rows = grad.out_edges.rows,
                            .cols = grad.cols,
                            .indptr = grad.out_edges.indptr,
                            .indices = grad.out_edges.indices,
                            .winners = grad.winners,
                            .grad_out = grad.grad_out,
                            .grad_in = grad.grad_in};
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return neighbor_max_grad_cuda(all, stream.get());
#endif
  neighbor_max_grad_cpu(all);
}

void score_heads(const HeadScores& scores, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  attention_on(stream).head_dots({.num_rows = scores.num_rows,
                                  .heads = scores.heads,
                                  .head_cols = scores.head_cols,
                                  .rows = scores.rows,
                                  .weights = scores.weights,
                                  .scores = scores.scores},
                                 stream.get());
}

void attend_over_edges(const EdgeAttentionForward& pass, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  attention_on(stream).forward(
      {.over = attention_of(pass.over, {}), .log_sums = pass.log_sums, .out = pass.out}, stream.get());
}

void attend_over_edges_grad(const EdgeAttentionGrad& pass, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  attention_on(stream).backward({.over = attention_of(pass.over, pass.out_edges),
                                 .log_sums = pass.log_sums,
                                 .src_weights = pass.src_weights,
                                 .dst_weights = pass.dst_weights,
                                 .grad_out = pass.grad_out,
                                 .means = pass.means,
                                 .grad_dst_scores = pass.grad_dst_scores,
                                 .grad_src_scores = pass.grad_src_scores,
                                 .grad_rows = pass.grad_rows},
                                stream.get());
}

}  // namespace strata::nn
