// SPDX-License-Identifier: Apache-2.0
#include "task/link_loss.hpp"

#include <ATen/TensorIndexing.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>

#include <cmath>

namespace strata::train {
namespace {

at::Tensor losses_of(LossKind kind, const at::Tensor& links, const at::Tensor& negatives) {
  if (kind == LossKind::bpr) return at::softplus(negatives - links.unsqueeze(1)).mean(1);
  const at::Tensor sum = at::softplus(links.neg()) + at::softplus(negatives).sum(1);
  return sum.div(static_cast<double>(1 + negatives.size(1)));
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

Loss::Result LinkLoss::operator()(const at::Tensor& outputs, const LinkPlaces& places,
                                  const at::Tensor& total) const {
  const at::AutoGradMode with_gradient(true);
  const Count links = places.sources.size(0), width = outputs.size(1);
  const at::Tensor rows = outputs.detach().requires_grad_(true),
                   are_links = places.sources.ge(0).to(at::kFloat);
  // The backward pass of index() adds up rows in a fixed order.
  const at::Tensor sources = rows.index({places.sources.clamp_min(0)}),
                   ends = rows.index({places.destinations.clamp_min(0)}),
                   others = ends.slice(0, links).view({links, -1, width});
  const at::Tensor scores = sources.mul(ends.slice(0, 0, links)).sum(1),
                   negatives = sources.unsqueeze(1).mul(others).sum(2);
  const at::Tensor sum = losses_of(kind_, scores, negatives).mul(are_links).sum();
  sum.div(total).backward();
  const at::Tensor hits =
      negatives.detach().lt(scores.detach().unsqueeze(1)).to(at::kFloat).mean(1).mul(are_links).sum();
  return {.gradient = rows.grad(), .outcome = at::stack({sum.detach(), hits, are_links.sum()})};
}

double loss_of_link(LossKind kind, float score, std::span<const float> negatives) {
  double sum = 0;
  for (const float negative : negatives)
    sum += softplus(kind == LossKind::bpr ? static_cast<double>(negative) - score : negative);
  const auto count = static_cast<double>(negatives.size());
  return kind == LossKind::bpr ? sum / count : (sum + softplus(-static_cast<double>(score))) / (1 + count);
}

}  // namespace strata::train
