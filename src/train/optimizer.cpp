#include "strata/train/optimizer.hpp"

#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <cmath>

#include "strata/util/error.hpp"

namespace strata::train {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {}

  void step(at::Tensor values, at::Tensor gradients) override {
    ++steps;
    if (options_.weight_decay != 0) gradients.add_(values, options_.weight_decay);
    values.sub_(gradients, options_.learning_rate);
  }
  std::vector<NamedTensor> state() override { return {}; }

 private:
  OptimizerOptions options_;
};

/// Kingma and Ba, "Adam", ICLR 2015; with decoupled decay: Loshchilov and Hutter, ICLR 2019.
class Adam final : public Optimizer {
 public:
  Adam(const OptimizerOptions& options, const at::Tensor& values)
      : options_(options),
        decoupled_(options.kind == "adamw"),
        first_(at::zeros_like(values)),
        second_(at::zeros_like(values)) {}

  void step(at::Tensor values, at::Tensor gradients) override {
    ++steps;
    if (decoupled_) {
      values.mul_(1 - options_.learning_rate * options_.weight_decay);
    } else if (options_.weight_decay != 0) {
      gradients.add_(values, options_.weight_decay);
    }
    first_.mul_(kBeta1).add_(gradients, 1 - kBeta1);
    second_.mul_(kBeta2).addcmul_(gradients, gradients, 1 - kBeta2);
    const double count = static_cast<double>(steps);
    const double correction1 = 1 - std::pow(kBeta1, count), correction2 = 1 - std::pow(kBeta2, count);
    const at::Tensor scale = second_.sqrt().div_(std::sqrt(correction2)).add_(kEpsilon);
    values.addcdiv_(first_, scale, -options_.learning_rate / correction1);
  }
  std::vector<NamedTensor> state() override { return {{"first_moment", first_}, {"second_moment", second_}}; }

 private:
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
  OptimizerOptions options_;
  bool decoupled_;
  at::Tensor first_, second_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const at::Tensor& values) {
  if (options.kind == "sgd") return std::make_unique<Sgd>(options);
  if (options.kind == "adam" || options.kind == "adamw") return std::make_unique<Adam>(options, values);
  throw InputError(fmt::format("there is no optimizer \"{}\"", options.kind), "Use adam, adamw or sgd.");
}

}  // namespace strata::train
