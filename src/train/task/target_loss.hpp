// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/train/config.hpp"
#include "strata/train/task.hpp"

namespace strata::train {

/// The error of targets whose scale was made 0 and 1: the mean over the columns of its square (mse), its
/// magnitude (mae), what is half the square up to 1 and grows like the magnitude beyond (huber, as
/// torch.nn.HuberLoss with delta 1), or the pinball loss (quantile), which is least where that share of the targets lies
/// below the output. Targets that are missing add nothing. No seed is right or wrong: there are
/// no hits.
class TargetLoss final : public Loss {
 public:
  /// `loss` is one of regression; `scales`: of each column.
  TargetLoss(LossChoice loss, const std::vector<graph::TargetScale>& scales, at::Device device);

  Result operator()(const at::Tensor& outputs, const at::Tensor& targets,
                    const at::Tensor& total) const override;

 private:
  LossChoice loss_;
  at::Tensor mean_, deviation_;  ///< [columns] f32
};

/// The loss of one error, as TargetLoss has it.
double loss_of_error(LossChoice loss, double error);

}  // namespace strata::train
