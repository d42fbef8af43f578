// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include "strata/train/config.hpp"
#include "strata/train/task.hpp"

namespace strata::train {

/// Places of links' ends among a batch's seeds, on the loss's device.
struct LinkPlaces {
  at::Tensor sources;  ///< [links] i64; -1: no link
  at::Tensor
      destinations;  ///< [links * (1 + negatives)] i64: the links', then those of each link's negatives
};

/// The loss of links against negatives of their sources. The score of a pair is the dot product of its ends'
/// outputs.
///
///     bce, cross-entropy    mean over a link and its negatives of the binary cross entropies of their scores
///     bpr                   mean over the negatives of -log sigmoid(score of the link - score of the negative)
///
/// The hit of a link is the share of its negatives with a lower score.
class LinkLoss {
 public:
  explicit LinkLoss(LossKind kind) : kind_(kind) {}
  /// `total`: [] f32, links of all ranks. The result is as Loss has it, over links.
  Loss::Result operator()(const at::Tensor& outputs, const LinkPlaces& places, const at::Tensor& total) const;

 private:
  LossKind kind_;
};

/// The loss of one link, as LinkLoss has it.
double loss_of_link(LossKind kind, float score, std::span<const float> negatives);

}  // namespace strata::train
