// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

struct ClassLossOptions {
  LossChoice kind = LossKind::cross_entropy;
  double label_smoothing = 0;  ///< in [0, 1): the share of a target that is spread over all classes
  std::vector<double> class_weights = {};  ///< one per class; empty: all 1
  bool multi_label = false;                ///< labels are sets of classes (label_sets.hpp); bce and focal
};

/// Cross entropy for label y with class weights w and smoothing s over C classes, as in
/// torch.nn.CrossEntropyLoss:
///
///     (1 - s) w[y] (-log p[y])  +  s / C  sum over c of w[c] (-log p[c])
///
/// bce is the mean over the classes of the binary cross entropies, weighted by w[c]. The target is 1 - s/2
/// for y (with several labels, for each of them) and s/2 for the other classes.
///
/// focal is cross entropy times w[y] (1 - p[y])^gamma (https://arxiv.org/abs/1708.02002), without smoothing; with
/// several labels per node, that of the binary cross entropies.
///
/// A seed is right if its largest logit is that of its label; with several labels per node, its hit is the
/// share of classes whose logit has the right sign. With one class per node, a negative label means that the
/// seed has none and does not count. On a GPU, cross entropy and bce launch two kernels.
class ClassLoss final : public Loss {
 public:
  /// Throws InputError for cross entropy with several labels per node, a smoothing outside [0, 1), and
  /// weights that are negative, not finite or not one per class.
  ClassLoss(const ClassLossOptions& options, Count num_classes, at::Device device);

  Result operator()(const at::Tensor& logits, const at::Tensor& labels,
                    const at::Tensor& total) const override;

 private:
  ClassLossOptions options_;
  at::Tensor weights_;  ///< [classes] f32, or undefined
  at::Tensor classes_;  ///< [classes] i64: 0, 1, ...
};

/// Weights with which every class has the same share of the loss and the mean node has weight 1: nodes /
/// (classes * nodes of the class), as scikit-learn's "balanced". 0 for a class without nodes.
std::vector<double> balanced_weights(const std::vector<Count>& nodes_of_class);

}  // namespace strata::train
