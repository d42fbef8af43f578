// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "strata/train/choices.hpp"
#include "strata/util/label_sets.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

struct LossOptions {
  LossKind kind = LossKind::cross_entropy;
  double label_smoothing = 0;  ///< in [0, 1): the share of a target that is spread over all classes
  std::vector<double> class_weights = {};  ///< one a class; empty: all 1
  bool multi_label = false;                ///< labels are sets of classes (label_sets.hpp); bce only
};

/// What a step minimises: the sum of the seeds' losses, divided by the number of seeds of all ranks.
///
/// Cross entropy with a weight w and smoothing s of label y over C classes, as torch.nn.CrossEntropyLoss:
///
///     (1 - s) w[y] (-log p[y])  +  s / C  sum over c of w[c] (-log p[c])
///
/// bce is the mean over the classes of the binary cross entropies, weighted w[c], with the target 1 - s/2 for
/// y (of several labels, for each) and s/2 for the others. Everything stays on the device: no value is read
/// by the host.
class Loss {
 public:
  /// Throws InputError for cross entropy of several labels, a smoothing outside [0, 1), and
  /// weights that are not finite, are negative, or are not one a class.
  Loss(const LossOptions& options, Count num_classes, at::Device device);

  struct Result {
    at::Tensor gradient;  ///< [seeds, classes] f32: of sum / total with respect to the logits
    /// [3] f32: the sum; seeds whose largest logit is their label's (of several labels: the sum over the
    /// seeds of the share of classes whose logit has the right sign); seeds with a label.
    at::Tensor outcome;
  };
  /// logits [seeds, classes] f32; labels [seeds, label_words()] i32, of one class negative: no label, counts
  /// for nothing; total [] f32 on the device: seeds of all ranks. On a GPU two kernels on libtorch's current
  /// stream.
  Result operator()(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& total) const;
  Count label_words() const { return options_.multi_label ? label_set_words(classes_.size(0)) : 1; }

 private:
  LossOptions options_;
  at::Tensor weights_;  ///< [classes] f32, or undefined
  at::Tensor classes_;  ///< [classes] i64: 0, 1, ...
};

/// What asks for balanced_weights in place of numbers.
inline constexpr const char* kBalanced = "balanced";

/// The text of --class-weights: numbers with commas. Throws InputError.
std::vector<double> parse_class_weights(const std::string& text);

/// Weights that give every class the same part in the loss of nodes with these labels, and the mean node a
/// weight of 1: nodes / (classes * nodes of the class), as scikit-learn's "balanced". 0 for a class without
/// nodes.
std::vector<double> balanced_weights(const std::vector<Count>& nodes_of_class);

}  // namespace strata::train
