// SPDX-License-Identifier: Apache-2.0
#include "layers/edge_attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "layers/op_support.hpp"

namespace strata::nn {
namespace {

DType dtype_of(const at::Tensor& rows) {
  return rows.scalar_type() == at::kBFloat16 ? DType::bf16 : DType::f32;
}

EdgeLists lists_of(const sampling::Block& block) { return {block.num_dst, block.indptr, block.indices}; }
EdgeLists out_lists_of(const sampling::Block& block) {
  return {block.num_src, block.transposed_indptr, block.transposed_indices};
}

/// [num_dst, heads] f32.
at::Tensor of_heads(const AttentionOver& over, const at::Tensor& rows) {
  return at::empty({over.block.num_dst, over.heads}, rows.options().dtype(at::kFloat));
}

EdgeAttention attention_of(const ScoredRows& scored, const AttentionOver& over) {
  return {.edges = lists_of(over.block),
          .out_edges = out_lists_of(over.block),
          .num_src = over.block.num_src,
          .heads = over.heads,
          .head_cols = scored.rows.size(1) / over.heads,
          .dtype = dtype_of(scored.rows),
          .rows = scored.rows.const_data_ptr(),
          .src_scores = scored.src_scores.const_data_ptr<float>(),
          .dst_scores = scored.dst_scores.const_data_ptr<float>(),
          .dropout = over.dropout,
          .slope = over.slope,
          .self_loops = false};
}

struct RowAttention : Function<RowAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& src_scores,
                            const at::Tensor& dst_scores, const AttentionOver& over) {
    const at::Tensor out = at::empty({over.block.num_dst, rows.size(1)}, rows.options()),
                     log_sums = of_heads(over, rows);
    attention_kernels_for(rows).forward(
        EdgeAttentionForward{.over = attention_of({rows, src_scores, dst_scores}, over),
                             .log_sums = log_sums.mutable_data_ptr<float>(),
                             .out = out.mutable_data_ptr()},
        stream_of(rows));
    carry(context, over);
    context->save_for_backward({rows, src_scores, dst_scores, log_sums});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const ScoredRows scored{saved[0], saved[1], saved[2]};
    const at::Tensor grad_out = grads[0].contiguous(), grad_rows = at::empty_like(scored.rows),
                     grad_src = at::empty_like(scored.src_scores),
                     grad_dst = at::empty_like(scored.dst_scores), means = at::empty_like(scored.dst_scores);
    attention_kernels_for(grad_out).backward(
        EdgeAttentionGrad{.over = attention_of(scored, carried<AttentionOver>(context)),
                          .log_sums = saved[3].const_data_ptr<float>(),
                          .grad_out = grad_out.const_data_ptr(),
                          .means = means.mutable_data_ptr<float>(),
                          .grad_src_scores = grad_src.mutable_data_ptr<float>(),
                          .grad_dst_scores = grad_dst.mutable_data_ptr<float>(),
                          .grad_rows = grad_rows.mutable_data_ptr()},
        stream_of(grad_out));
    return {grad_rows, grad_src, grad_dst, {}};
  }
};

DotAttention attention_of(const at::Tensor& queries, const at::Tensor& rows, const AttentionOver& over) {
  return {.edges = lists_of(over.block),
          .out_edges = out_lists_of(over.block),
          .num_src = over.block.num_src,
          .heads = over.heads,
          .head_cols = queries.size(1) / over.heads,
          .dtype = dtype_of(rows),
          .queries = queries.const_data_ptr(),
          .rows = rows.const_data_ptr(),
          .dropout = over.dropout};
}

struct AttentionByDots : Function<AttentionByDots> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& queries, const at::Tensor& rows,
                            const AttentionOver& over) {
    const at::Tensor out = at::empty_like(queries), log_sums = of_heads(over, rows);
    attention_kernels_for(rows).forward(DotAttentionForward{.over = attention_of(queries, rows, over),
                                                            .log_sums = log_sums.mutable_data_ptr<float>(),
                                                            .out = out.mutable_data_ptr()},
                                        stream_of(rows));
    carry(context, over);
    context->save_for_backward({queries, rows, log_sums});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &queries = saved[0], &rows = saved[1], &log_sums = saved[2];
    const at::Tensor grad_out = grads[0].contiguous(), grad_queries = at::empty_like(queries),
                     grad_rows = at::empty_like(rows), means = at::empty_like(log_sums);
    attention_kernels_for(grad_out).backward(
        DotAttentionGrad{.over = attention_of(queries, rows, carried<AttentionOver>(context)),
                         .log_sums = log_sums.const_data_ptr<float>(),
                         .grad_out = grad_out.const_data_ptr(),
                         .means = means.mutable_data_ptr<float>(),
                         .grad_queries = grad_queries.mutable_data_ptr(),
                         .grad_rows = grad_rows.mutable_data_ptr()},
        stream_of(grad_out));
    return {grad_queries, grad_rows, {}};
  }
};

}  // namespace

at::Tensor attend_over_rows(const ScoredRows& scored, const AttentionOver& over) {
  return RowAttention::apply(scored.rows.contiguous(), scored.src_scores.contiguous(),
                             scored.dst_scores.contiguous(), over);
}

at::Tensor attend_by_dots(const at::Tensor& queries, const at::Tensor& rows, const AttentionOver& over) {
  return AttentionByDots::apply(queries.contiguous(), rows.contiguous(), over);
}

}  // namespace strata::nn
