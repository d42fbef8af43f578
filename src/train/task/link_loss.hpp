// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <span>

#include "strata/nn/decoder.hpp"
#include "strata/train/config.hpp"
#include "strata/train/task.hpp"

namespace strata::train {

/// The links of a rank's batch, on the loss's device. Ends are places among the batch's seeds.
struct LinkBatch {
  /// [links] i64; with negatives of both ends [links * (1 + negatives)]: the links', then those of their negatives.
  at::Tensor sources;
  at::Tensor destinations;  ///< [links] i64, or [links * (1 + negatives)] likewise
  at::Tensor links;         ///< [links] i64: numbers among all links to learn; their number: no link
};

/// What is known of all links to learn, on the loss's device; a last row stands for no link, which has no loss.
struct LinkTable {
  at::Tensor relations = {};  ///< [all links + 1] i64
  at::Tensor weights = {};    ///< [all links + 1] f32, or undefined: all 1
  at::Tensor targets = {};    ///< [all links + 1, words] i32, or undefined
};

/// What a step of links minimizes.
class PairLoss {
 public:
  PairLoss(std::shared_ptr<nn::Decoder> decoder, LinkTable table)
      : decoder_(std::move(decoder)), table_(std::move(table)) {}
  virtual ~PairLoss() = default;
  /// outputs [seeds, cols] f32; total [] f32: links of all ranks. The result is as Loss has it, over links; gradients
  /// of the decoder's weights are added to theirs.
  virtual Loss::Result operator()(const at::Tensor& outputs, const LinkBatch& batch,
                                  const at::Tensor& total) const = 0;

 protected:
  std::shared_ptr<nn::Decoder> decoder_;
  LinkTable table_;
};

/// The loss of links against their negatives, as strata.nn.link_loss in Python has them: the mean over those of each
/// link, and over the sides of which there are negatives.
///
///     bce, cross-entropy  binary cross entropies of a link and its negatives, the mean over all
///     bpr                 -log sigmoid(link - negative)
///     margin              max(0, margin - link + negative)
///     contrastive         cross entropy of the link among itself and its negatives, of scores / temperature
///     adversarial         -log sigmoid(link), and -log sigmoid(-negative) with the weight softmax(temperature *
///                         negative), which gets no gradient; half of their sum
///
/// The hit of a link is the share of its negatives with a lower score.
class LinkLoss final : public PairLoss {
 public:
  LinkLoss(LossChoice loss, std::shared_ptr<nn::Decoder> decoder, LinkTable table)
      : PairLoss(std::move(decoder), std::move(table)), loss_(loss) {}
  Loss::Result operator()(const at::Tensor& outputs, const LinkBatch& batch,
                          const at::Tensor& total) const override;

 private:
  LossChoice loss_;
};

/// The loss of the targets of edges, which a decoder's outputs predict.
class EdgeLoss final : public PairLoss {
 public:
  EdgeLoss(std::unique_ptr<Loss> loss, std::shared_ptr<nn::Decoder> decoder, LinkTable table)
      : PairLoss(std::move(decoder), std::move(table)), loss_(std::move(loss)) {}
  Loss::Result operator()(const at::Tensor& outputs, const LinkBatch& batch,
                          const at::Tensor& total) const override;

 private:
  std::unique_ptr<Loss> loss_;
};

/// The loss of one link and one side, as LinkLoss has it.
double loss_of_link(LossChoice loss, float score, std::span<const float> negatives);

}  // namespace strata::train
