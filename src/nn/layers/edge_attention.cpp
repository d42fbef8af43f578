// SPDX-License-Identifier: Apache-2.0
#include "layers/edge_attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "layers/op_support.hpp"

namespace strata::nn {
namespace {

EdgeAttention attention_of(const ScoredEdges& edges, const AttentionOver& over) {
  const sampling::Block& block = over.block;
  return {.edges = {block.num_dst, block.indptr, block.indices},
          .out_edges = {block.num_src, block.transposed_indptr, block.transposed_indices},
          .num_src = block.num_src,
          .heads = over.heads,
          .head_cols = edges.rows.size(1) / over.heads,
          .rows = edges.rows.const_data_ptr<float>(),
          .src_scores = edges.src_scores.const_data_ptr<float>(),
          .dst_scores = edges.dst_scores.const_data_ptr<float>(),
          .slope = over.slope,
          .self_loops = false};
}

struct RowAttention : Function<RowAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& src_scores,
                            const at::Tensor& dst_scores, const AttentionOver& over) {
    const ScoredEdges edges{rows, src_scores, dst_scores};
    const at::Tensor out = at::empty({over.block.num_dst, rows.size(1)}, rows.options()),
                     log_sums = at::empty_like(dst_scores);
    attention_kernels_for(rows).forward({.over = attention_of(edges, over),
                                         .log_sums = log_sums.mutable_data_ptr<float>(),
                                         .out = out.mutable_data_ptr<float>()},
                                        stream_of(rows));
    carry(context, over);
    context->save_for_backward({rows, src_scores, dst_scores, log_sums});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const ScoredEdges edges{saved[0], saved[1], saved[2]};
    const at::Tensor grad_out = grads[0].contiguous(), grad_rows = at::empty_like(edges.rows),
                     grad_src = at::empty_like(edges.src_scores), grad_dst = at::empty_like(edges.dst_scores),
                     means = at::empty_like(edges.dst_scores);
    // Scores are inputs of their own, so that no gradient of theirs goes to the rows here.
    const at::Tensor none = at::zeros({edges.rows.size(1)}, edges.rows.options());
    attention_kernels_for(grad_out).backward({.over = attention_of(edges, carried<AttentionOver>(context)),
                                              .log_sums = saved[3].const_data_ptr<float>(),
                                              .src_weights = none.const_data_ptr<float>(),
                                              .dst_weights = nullptr,
                                              .grad_out = grad_out.const_data_ptr<float>(),
                                              .means = means.mutable_data_ptr<float>(),
                                              .grad_src_scores = grad_src.mutable_data_ptr<float>(),
                                              .grad_dst_scores = grad_dst.mutable_data_ptr<float>(),
                                              .grad_rows = grad_rows.mutable_data_ptr<float>()},
                                             stream_of(grad_out));
    return {grad_rows, grad_src, grad_dst, {}};
  }
};

}  // namespace

at::Tensor attend_over_rows(const ScoredEdges& edges, const AttentionOver& over) {
  const at::Tensor dst_scores = edges.dst_scores.defined()
                                    ? edges.dst_scores
                                    : at::zeros({over.block.num_dst, over.heads}, edges.rows.options());
  return RowAttention::apply(edges.rows.contiguous(), edges.src_scores.contiguous(), dst_scores.contiguous(),
                             over);
}

}  // namespace strata::nn
