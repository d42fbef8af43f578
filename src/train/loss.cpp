#include "strata/train/loss.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "strata/util/error.hpp"

namespace strata::train {
namespace {

constexpr std::int64_t kNoLabel = -100;

void check(const LossOptions& options, Count num_classes) {
  if (options.kind != "cross-entropy" && options.kind != "bce")
    throw InputError(fmt::format("there is no loss \"{}\"", options.kind), "Use cross-entropy or bce.");
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) {
    throw InputError(fmt::format("--label-smoothing: {} is not in [0, 1)", options.label_smoothing),
                     "Give a share such as 0.1.");
  }
  const auto& weights = options.class_weights;
  if (!weights.empty() && static_cast<Count>(weights.size()) != num_classes) {
    throw InputError(
        fmt::format("--class-weights has {} numbers, the graph {} classes", weights.size(), num_classes),
        "Give one weight a class, in the order of the labels, or balanced.");
  }
  if (std::ranges::any_of(weights, [](double w) { return !std::isfinite(w) || w < 0; }))
    throw InputError("--class-weights are finite numbers of 0 or more",
                     "Give positive weights, or balanced.");
}

}  // namespace

Loss::Loss(const LossOptions& options, Count num_classes, at::Device device) : options_(options) {
  check(options, num_classes);
  classes_ = at::arange(num_classes, at::TensorOptions().dtype(at::kLong).device(device));
  if (!options.class_weights.empty())
    weights_ = at::tensor(at::ArrayRef<double>(options.class_weights)).to(device, at::kFloat);
}

at::Tensor Loss::cross_entropy(const at::Tensor& logits, const at::Tensor& labels) const {
  return at::cross_entropy_loss(logits, labels, weights_, at::Reduction::Sum, kNoLabel,
                                options_.label_smoothing);
}

at::Tensor Loss::binary_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                      const at::Tensor& labelled) const {
  const at::Tensor targets = classes_.eq(labels.unsqueeze(1))
                                 .to(at::kFloat)
                                 .mul(1 - options_.label_smoothing)
                                 .add(options_.label_smoothing / 2);
  at::Tensor weights = labelled.unsqueeze(1).to(at::kFloat);
  if (weights_.defined()) weights = weights.mul(weights_);
  const at::Tensor sum =
      at::binary_cross_entropy_with_logits(logits, targets, weights, {}, at::Reduction::Sum);
  return sum.div(static_cast<double>(classes_.numel()));
}

Loss::Result Loss::operator()(const at::Tensor& logits, const at::Tensor& labels,
                              const at::Tensor& total) const {
  const at::Tensor labelled = labels.ge(0);
  const at::Tensor sum = options_.kind == "bce"
                             ? binary_cross_entropy(logits, labels, labelled)
                             : cross_entropy(logits, labels.masked_fill(labelled.logical_not(), kNoLabel));
  return {.mean = sum.div(total),
          .sum = sum.detach(),
          .correct = logits.detach().argmax(1).eq(labels).sum(),
          .seeds = labelled.sum()};
}

std::vector<double> parse_class_weights(const std::string& text) {
  std::vector<double> weights;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    double weight = 0;
    const auto [rest, failed] = std::from_chars(word.data(), word.data() + word.size(), weight);
    if (failed != std::errc() || rest != word.data() + word.size()) {
      throw InputError(fmt::format("--class-weights: \"{}\" is no number", word),
                       "Give one weight a class, such as 1,2.5,1, or balanced.");
    }
    weights.push_back(weight);
    begin = end + 1;
  }
  return weights;
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
