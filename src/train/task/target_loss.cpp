// SPDX-License-Identifier: Apache-2.0
#include "task/target_loss.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

namespace strata::train {
namespace {

struct LossAndSlope {
  at::Tensor loss, slope;
};

LossAndSlope of_errors(LossChoice loss, const at::Tensor& error) {
  if (loss == LossKind::mse) return {error.square(), error.mul(2)};
  if (loss == LossKind::mae) return {error.abs(), error.sign()};
  if (loss == LossKind::quantile) {
    const at::Tensor slope = error.gt(0).to(at::kFloat).sub(loss.value).mul(error.ne(0));
    return {slope.mul(error), slope};
  }
  const at::Tensor slope = error.clamp(-1, 1);
  return {slope.mul(error.sub(slope.div(2))), slope};
}

}  // namespace

TargetLoss::TargetLoss(LossChoice loss, const std::vector<graph::TargetScale>& scales, at::Device device)
    : loss_(loss) {
  std::vector<double> mean, deviation;
  for (const graph::TargetScale& scale : scales) {
    mean.push_back(scale.mean);
    deviation.push_back(scale.deviation);
  }
  mean_ = at::tensor(at::ArrayRef<double>(mean)).to(device, at::kFloat);
  deviation_ = at::tensor(at::ArrayRef<double>(deviation)).to(device, at::kFloat);
}

Loss::Result TargetLoss::operator()(const at::Tensor& outputs, const at::Tensor& targets,
                                    const at::Tensor& total) const {
  const at::NoGradGuard no_grad;
  const at::Tensor wanted = targets.view(at::kFloat), missing = wanted.ne(wanted);
  const at::Tensor error = outputs.sub(wanted.sub(mean_).div(deviation_)).masked_fill(missing, 0);
  const LossAndSlope found = of_errors(loss_, error);
  const auto columns = static_cast<double>(error.size(1));
  const at::Tensor sum = found.loss.sum().div(columns);
  return {
      .gradient = found.slope.div(total.mul(columns)),
      .outcome = at::stack({sum, at::zeros_like(sum), missing.logical_not().any(1).sum().to(at::kFloat)})};
}

double loss_of_error(LossChoice loss, double error) {
  if (loss == LossKind::mse) return error * error;
  if (loss == LossKind::mae) return std::abs(error);
  if (loss == LossKind::quantile) return (error > 0 ? 1 - loss.value : -loss.value) * error;
  const double slope = std::clamp(error, -1.0, 1.0);
  return slope * (error - slope / 2);
}

}  // namespace strata::train
