// SPDX-License-Identifier: Apache-2.0
#include "task/class_loss.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#if STRATA_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

#include <algorithm>
#include <cmath>

#include "strata/util/error.hpp"
#include "task/class_loss_kernels.hpp"

namespace strata::train {
namespace {

void check(const ClassLossOptions& options, Count num_classes) {
  if (options.multi_label && options.kind == LossKind::cross_entropy)
    throw InputError(
        "--loss cross-entropy needs one class per node, but nodes of this graph may have several",
        "Use --loss bce or focal.");
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) {
    throw InputError(fmt::format("--label-smoothing: {} is not in [0, 1)", options.label_smoothing),
                     "Give a share such as 0.1.");
  }
  const auto& weights = options.class_weights;
  if (!weights.empty() && static_cast<Count>(weights.size()) != num_classes) {
    throw InputError(
        fmt::format("--class-weights has {} numbers, the graph {} classes", weights.size(), num_classes),
        "Give one weight per class, in the order of the labels, or balanced.");
  }
  if (std::ranges::any_of(weights, [](double w) { return !std::isfinite(w) || w < 0; }))
    throw InputError("--class-weights are finite numbers of 0 or more",
                     "Give positive weights, or balanced.");
  if (!weights.empty() && std::ranges::all_of(weights, [](double w) { return w == 0; }))
    throw InputError("--class-weights are 0 for every class", "Give positive weights, or balanced.");
}

/// The target classes of each seed; seeds without label have zero weights.
struct Targets {
  at::Tensor is_label;  // [seeds, classes] f32: 1 for the label's class, or each class of the label's set
  at::Tensor labelled;  // [seeds, 1] f32
  at::Tensor weights;   // [seeds, classes] f32

  Targets(const at::Tensor& of_classes, const at::Tensor& classes, const at::Tensor& labels,
          bool multi_label) {
    const Count num_classes = classes.size(0);
    if (multi_label) {
      const auto bits = [&](const at::Tensor& which) {
        const at::Tensor words = labels.index_select(1, which.div(32, "floor"));
        return words.bitwise_right_shift(which.remainder(32).to(at::kInt)).bitwise_and(1).to(at::kFloat);
      };
      is_label = bits(classes);
      labelled = bits(at::full({1}, num_classes, classes.options())).neg().add(1);
    } else {
      is_label = classes.eq(labels).to(at::kFloat);
      labelled = labels.ge(0).to(at::kFloat);
    }
    weights = labelled.expand_as(is_label);
    if (of_classes.defined()) weights = weights.mul(of_classes);
  }

  /// The sum over the seeds of their correct predictions.
  at::Tensor correct(const at::Tensor& logits, const at::Tensor& labels, bool multi_label) const {
    if (!multi_label) return logits.argmax(1, /*keepdim=*/true).eq(labels).sum();
    return logits.gt(0).eq(is_label).to(at::kFloat).mean(1, /*keepdim=*/true).mul(labelled).sum();
  }
};

struct SumAndGradient {
  at::Tensor sum, gradient;
};

SumAndGradient cross_entropy(const Targets& targets, const at::Tensor& logits,
                             const ClassLossOptions& options) {
  const double share = options.label_smoothing / static_cast<double>(logits.size(1));
  const at::Tensor wanted = targets.is_label.mul(1 - options.label_smoothing).add(share).mul(targets.weights);
  const at::Tensor log_p = at::log_softmax(logits, 1);
  return {.sum = wanted.mul(log_p).sum().neg(),
          .gradient = log_p.exp().mul(wanted.sum(1, /*keepdim=*/true)).sub(wanted)};
}

SumAndGradient binary_cross_entropy(const Targets& targets, const at::Tensor& logits,
                                    const ClassLossOptions& options) {
  const at::Tensor wanted =
      targets.is_label.mul(1 - options.label_smoothing).add(options.label_smoothing / 2);
  const at::Tensor weights = targets.weights.div(static_cast<double>(logits.size(1)));
  return {.sum = at::softplus(logits).sub(wanted.mul(logits)).mul(weights).sum(),
          .gradient = at::sigmoid(logits).sub(wanted).mul(weights)};
}

/// Cross entropies times (1 - p)^gamma, where p is the probability of what is right, and their weights' gradients.
/// `entropy` = -log p; `slope`: its gradient.
SumAndGradient focused(const at::Tensor& entropy, const at::Tensor& slope, const at::Tensor& weights,
                       double gamma) {
  const at::Tensor right = entropy.neg().exp(), wrong = entropy.neg().expm1().neg();
  const at::Tensor factor = wrong.pow(gamma);
  // At p = 1 both factors of the second term are 0, also where gamma is below 1.
  const at::Tensor change =
      wrong.clamp_min(1e-12).pow(gamma - 1).mul(gamma).mul(right).mul(entropy).add(factor);
  return {.sum = factor.mul(entropy).mul(weights).sum(), .gradient = change.mul(weights).mul(slope)};
}

SumAndGradient focal(const Targets& targets, const at::Tensor& logits, const ClassLossOptions& options) {
  if (options.multi_label) {
    const at::Tensor entropy = at::softplus(logits).sub(targets.is_label.mul(logits));
    return focused(entropy, at::sigmoid(logits).sub(targets.is_label),
                   targets.weights.div(static_cast<double>(logits.size(1))), options.kind.value);
  }
  const at::Tensor log_p = at::log_softmax(logits, 1), of_label = targets.is_label.mul(targets.weights);
  return focused(targets.is_label.mul(log_p).sum(1, /*keepdim=*/true).neg(),
                 log_p.exp().sub(targets.is_label), of_label.sum(1, /*keepdim=*/true), options.kind.value);
}

#if STRATA_WITH_CUDA
Loss::Result on_gpu(const ClassLossOptions& options, const at::Tensor& weights, const at::Tensor& logits,
                    const at::Tensor& labels, const at::Tensor& total) {
  const at::Tensor rows = logits.contiguous(), gradient = at::empty_like(rows);
  const at::Tensor row_outcomes = at::empty({rows.size(0), ClassLossBatch::kOutcomes}, rows.options());
  const at::Tensor outcome = at::empty({ClassLossBatch::kOutcomes}, rows.options());
  class_loss_cuda({.rows = rows.size(0),
                   .classes = rows.size(1),
                   .bce = options.kind == LossKind::bce,
                   .smoothing = static_cast<float>(options.label_smoothing),
                   .weights = weights.defined() ? weights.const_data_ptr<float>() : nullptr,
                   .logits = rows.const_data_ptr<float>(),
                   .multi_label = options.multi_label,
                   .labels = labels.const_data_ptr<std::int32_t>(),
                   .total = total.const_data_ptr<float>(),
                   .gradient = gradient.mutable_data_ptr<float>(),
                   .row_outcomes = row_outcomes.mutable_data_ptr<float>(),
                   .outcome = outcome.mutable_data_ptr<float>()},
                  c10::cuda::getCurrentCUDAStream(logits.get_device()).stream());
  return {.gradient = gradient, .outcome = outcome};
}
#endif

}  // namespace

ClassLoss::ClassLoss(const ClassLossOptions& options, Count num_classes, at::Device device)
    : options_(options) {
  check(options, num_classes);
  classes_ = at::arange(num_classes, at::TensorOptions().dtype(at::kLong).device(device));
  if (!options.class_weights.empty())
    weights_ = at::tensor(at::ArrayRef<double>(options.class_weights)).to(device, at::kFloat);
}

Loss::Result ClassLoss::operator()(const at::Tensor& logits, const at::Tensor& labels,
                                   const at::Tensor& total) const {
  const at::NoGradGuard no_grad;
#if STRATA_WITH_CUDA
  if (logits.is_cuda() && options_.kind != LossKind::focal)
    return on_gpu(options_, weights_, logits, labels, total);
#endif
  const Targets targets(weights_, classes_, labels, options_.multi_label);
  const SumAndGradient of_sum = options_.kind == LossKind::bce
                                    ? binary_cross_entropy(targets, logits, options_)
                                : options_.kind == LossKind::focal ? focal(targets, logits, options_)
                                                                   : cross_entropy(targets, logits, options_);
  const at::Tensor correct = targets.correct(logits, labels, options_.multi_label);
  return {.gradient = of_sum.gradient.div(total),
          .outcome = at::stack({of_sum.sum, correct.to(at::kFloat), targets.labelled.sum()})};
}

std::vector<double> balanced_weights(const std::vector<Count>& nodes_of_class) {
  double nodes = 0;
  for (const Count count : nodes_of_class) nodes += static_cast<double>(count);
  std::vector<double> weights;
  for (const Count count : nodes_of_class) {
    const double share = static_cast<double>(nodes_of_class.size()) * static_cast<double>(count);
    weights.push_back(count == 0 ? 0.0 : nodes / share);
  }
  return weights;
}

}  // namespace strata::train
