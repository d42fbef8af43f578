// SPDX-License-Identifier: Apache-2.0
#include "task/link_loss.hpp"

#include <ATen/TensorIndexing.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace strata::train {
namespace {

/// [links] of scores [links] and those of negatives [links, negatives].
at::Tensor losses_of(LossChoice loss, const at::Tensor& links, const at::Tensor& negatives) {
  const at::Tensor column = links.unsqueeze(1);
  switch (loss.kind) {
    case LossKind::bpr:
      return at::softplus(negatives - column).mean(1);
    case LossKind::margin:
      return (negatives - column).add(loss.value).relu().mean(1);
    case LossKind::contrastive: {
      const at::Tensor both = at::cat({column, negatives}, 1).div(loss.value);
      return at::logsumexp(both, {1}) - both.select(1, 0);
    }
    case LossKind::adversarial: {
      const at::Tensor weights = at::softmax(negatives.detach().mul(loss.value), 1);
      return (weights.mul(at::softplus(negatives)).sum(1) - at::log_sigmoid(links)).div(2);
    }
    default:
      return (at::softplus(links.neg()) + at::softplus(negatives).sum(1))
          .div(static_cast<double>(1 + negatives.size(1)));
  }
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double mean_of(std::span<const float> values, const auto& of) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const float value : values) sum += of(static_cast<double>(value));
  return sum / static_cast<double>(values.size());
}

/// log(sum of exp(factor * value)), and the mean of `of` with the weights exp(factor * value).
struct Weighted {
  double log_sum = 0, mean = 0;
};
Weighted weighted(std::span<const float> values, double factor, const auto& of) {
  if (values.empty()) return {.log_sum = -INFINITY};
  double most = -INFINITY, sum = 0, total = 0;
  for (const float value : values) most = std::max(most, factor * static_cast<double>(value));
  for (const float value : values) {
    const double weight = std::exp(factor * static_cast<double>(value) - most);
    sum += weight;
    total += weight * of(static_cast<double>(value));
  }
  return {.log_sum = most + std::log(sum), .mean = total / sum};
}

}  // namespace

Loss::Result LinkLoss::operator()(const at::Tensor& outputs, const LinkBatch& batch,
                                  const at::Tensor& total) const {
  const at::AutoGradMode with_gradient(true);
  const Count links = batch.links.size(0), width = outputs.size(1);
  const at::Tensor rows = outputs.detach().requires_grad_(true);
  // The backward pass of index() adds up rows in a fixed order.
  const auto of_links = [&](const at::Tensor& ends) { return rows.index({ends.narrow(0, 0, links)}); };
  const auto of_negatives = [&](const at::Tensor& ends) {
    return rows.index({ends.slice(0, links)}).view({links, -1, width});
  };
  const at::Tensor relations = table_.relations.index_select(0, batch.links), each = relations.unsqueeze(1),
                   are_links = batch.links.lt(table_.relations.size(0) - 1).to(at::kFloat);
  const at::Tensor sources = of_links(batch.sources), destinations = of_links(batch.destinations);
  const at::Tensor scores = decoder_->forward(sources, relations, destinations);
  std::vector<at::Tensor> sides;
  if (batch.destinations.size(0) > links)
    sides.push_back(decoder_->forward(sources.unsqueeze(1), each, of_negatives(batch.destinations)));
  if (batch.sources.size(0) > links)
    sides.push_back(decoder_->forward(of_negatives(batch.sources), each, destinations.unsqueeze(1)));
  at::Tensor losses, hits;
  for (const at::Tensor& negatives : sides) {
    const at::Tensor of_side = losses_of(loss_, scores, negatives);
    losses = losses.defined() ? losses + of_side : of_side;
    const at::Tensor lower = negatives.detach().lt(scores.detach().unsqueeze(1)).to(at::kFloat).mean(1);
    hits = hits.defined() ? hits + lower : lower;
  }
  const auto count = static_cast<double>(sides.size());
  if (sides.size() > 1) losses = losses.div(count), hits = hits.div(count);
  if (table_.weights.defined()) losses = losses.mul(table_.weights.index_select(0, batch.links));
  const at::Tensor sum = losses.mul(are_links).sum();
  sum.div(total).backward();
  return {.gradient = rows.grad(),
          .outcome = at::stack({sum.detach(), hits.mul(are_links).sum(), are_links.sum()})};
}

Loss::Result EdgeLoss::operator()(const at::Tensor& outputs, const LinkBatch& batch,
                                  const at::Tensor& total) const {
  const at::AutoGradMode with_gradient(true);
  const at::Tensor rows = outputs.detach().requires_grad_(true);
  at::Tensor predicted =
      decoder_->forward(rows.index({batch.sources}), table_.relations.index_select(0, batch.links),
                        rows.index({batch.destinations}));
  if (predicted.dim() == 1) predicted = predicted.unsqueeze(1);
  const Loss::Result of_predicted =
      (*loss_)(predicted.detach(), table_.targets.index_select(0, batch.links), total);
  predicted.backward(of_predicted.gradient);
  return {.gradient = rows.grad(), .outcome = of_predicted.outcome};
}

double loss_of_link(LossChoice loss, float score, std::span<const float> negatives) {
  const auto link = static_cast<double>(score), count = static_cast<double>(negatives.size());
  switch (loss.kind) {
    case LossKind::bpr:
      return mean_of(negatives, [&](double negative) { return softplus(negative - link); });
    case LossKind::margin:
      return mean_of(negatives, [&](double negative) { return std::max(0.0, loss.value - link + negative); });
    case LossKind::contrastive: {
      const Weighted others = weighted(negatives, 1 / loss.value, [](double) { return 0.0; });
      return softplus(others.log_sum - link / loss.value);
    }
    case LossKind::adversarial:
      return (softplus(-link) + weighted(negatives, loss.value, softplus).mean) / 2;
    default:
      return (softplus(-link) + count * mean_of(negatives, softplus)) / (1 + count);
  }
}

}  // namespace strata::train
