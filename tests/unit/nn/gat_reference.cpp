// SPDX-License-Identifier: Apache-2.0
#include "gat_reference.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/zeros.h>

namespace strata::test {
namespace {

at::Tensor sum_by_dst(const at::Tensor& values, const at::Tensor& dst, Count num_dst) {
  std::vector<std::int64_t> sizes = values.sizes().vec();
  sizes[0] = num_dst;
  return at::zeros(sizes, values.options().requires_grad(false)).index_add(0, dst, values);
}

}  // namespace

EdgeEnds attention_edges(const OwnedBlock& block) {
  const at::Tensor src = block.indices.to(at::kLong), dst = block.edge_dst();
  const at::Tensor others = src.ne(dst).nonzero().squeeze(1),
                   nodes = at::arange(block.num_dst, dst.options());
  return {at::cat({src.index_select(0, others), nodes}), at::cat({dst.index_select(0, others), nodes})};
}

at::Tensor reference_gat(nn::BlockModel& model, const GatShape& shape, const at::Tensor& x,
                         const OwnedBlock& block, const at::Tensor& kept) {
  const auto parameters = model.named_parameters();
  const auto f64 = [&](const char* name) { return parameters[name].to(at::kDouble); };
  const at::Tensor weight = f64("convs.0.lin.weight");
  const std::int64_t cols = weight.size(0) / shape.heads;
  const at::Tensor rows = x.mm(weight.t()).view({x.size(0), shape.heads, cols});
  const at::Tensor from = rows.mul(f64("convs.0.att_src")).sum(-1),
                   to = rows.mul(f64("convs.0.att_dst")).sum(-1);
  const EdgeEnds edges = attention_edges(block);
  const at::Tensor scores =
      at::leaky_relu(from.index_select(0, edges.src).add(to.index_select(0, edges.dst)), 0.2).exp();
  at::Tensor weights = scores.div(sum_by_dst(scores, edges.dst, block.num_dst).index_select(0, edges.dst));
  if (kept.defined()) weights = weights.mul(kept);
  const at::Tensor sums =
      sum_by_dst(rows.index_select(0, edges.src).mul(weights.unsqueeze(-1)), edges.dst, block.num_dst);
  const at::Tensor out = shape.concatenates ? sums.flatten(1) : sums.mean(1);
  if (!parameters.contains("convs.0.res.weight")) return out.add(f64("convs.0.bias"));
  return out.add(x.narrow(0, 0, block.num_dst).mm(f64("convs.0.res.weight").t())).add(f64("convs.0.bias"));
}

}  // namespace strata::test
