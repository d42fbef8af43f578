# SPDX-License-Identifier: Apache-2.0
"""Losses of links and of targets that torch.nn.functional does not have."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, logsigmoid, softplus

from strata.errors import InputError


def link_loss(
    positive: Tensor,
    negative: Tensor,
    kind: str = "cross_entropy",
    *,
    weight: Tensor | None = None,
    mask: Tensor | None = None,
    margin: float = 1.0,
    temperature: float = 1.0,
    reduction: str = "mean",
) -> Tensor:
    """The loss of scores of edges and of their negatives.

        loss = link_loss(decoder(x[head], relation, x[tail]), decoder.against(x[head], relation, x[negatives]))

    Args:
        positive: scores [E].
        negative: scores [E, K] of K negatives of each edge, or [E] of one.
        kind:
            "cross_entropy": binary cross entropy, the mean over an edge and its negatives.
            "bpr": -log sigmoid(positive - negative), the mean over negatives.
            "margin": max(0, margin - positive + negative), the mean over negatives.
            "contrastive": cross entropy of the edge among itself and its negatives (InfoNCE), of scores / temperature.
            "adversarial": log sigmoid of both, where negatives have the weight softmax(temperature * score), which gets no gradient
                (self-adversarial negative sampling, https://arxiv.org/abs/1902.10197).
        weight: of edges, [E]; the mean is then the weighted one.
        mask: bool [E, K], False for what is no negative of an edge, such as a batch's neg_mask.
        reduction: "mean", or "none" for the loss of each edge, [E], without the weights' sum in a denominator.
    """
    if kind not in _LINK_LOSSES:
        raise InputError(f"kind is {kind!r}", f"Choose one of {', '.join(_LINK_LOSSES)}.")
    if negative.dim() == 1:
        negative = negative.unsqueeze(1)
    if positive.dim() != 1 or negative.dim() != 2 or len(negative) != len(positive):
        raise InputError(
            f"positive is {list(positive.shape)}, negative {list(negative.shape)}",
            "Give scores [E] of edges and [E, K] of negatives.",
        )
    if mask is not None:
        if mask.shape != negative.shape:
            raise InputError(f"mask is {list(mask.shape)}, negative {list(negative.shape)}", "Give a mask of negatives' shape.")
        negative = negative.masked_fill(~mask, -torch.inf)
    losses = _LINK_LOSSES[kind](_Scores(positive, negative, mask), margin, temperature)
    return _reduced(losses, weight, reduction)


class _Scores(NamedTuple):
    positive: Tensor
    negative: Tensor  # -inf where there is none
    mask: Tensor | None

    def counts(self) -> Tensor | int:
        """How many negatives each edge has."""
        return self.negative.shape[1] if self.mask is None else self.mask.sum(1)

    def mean(self, losses: Tensor) -> Tensor:
        """The mean over the negatives of an edge, 0 of none."""
        if self.mask is None:
            return losses.mean(1)
        return losses.masked_fill(~self.mask, 0).sum(1) / self.mask.sum(1).clamp(min=1)


def _cross_entropy(scores: _Scores, margin: float, temperature: float) -> Tensor:
    return (softplus(-scores.positive) + softplus(scores.negative).sum(1)) / (1 + scores.counts())


def _bpr(scores: _Scores, margin: float, temperature: float) -> Tensor:
    return scores.mean(softplus(scores.negative - scores.positive.unsqueeze(1)))


def _margin(scores: _Scores, margin: float, temperature: float) -> Tensor:
    return scores.mean((margin - scores.positive.unsqueeze(1) + scores.negative).relu())


def _contrastive(scores: _Scores, margin: float, temperature: float) -> Tensor:
    both = torch.cat([scores.positive.unsqueeze(1), scores.negative], dim=1) / temperature
    return both.logsumexp(1) - both[:, 0]


def _adversarial(scores: _Scores, margin: float, temperature: float) -> Tensor:
    weights = (temperature * scores.negative.detach()).softmax(1)
    if scores.mask is not None:
        weights = weights.masked_fill(~scores.mask, 0)  # of an edge without negatives, too
    return (-logsigmoid(scores.positive) + (weights * softplus(scores.negative)).sum(1)) / 2


_LINK_LOSSES = {
    "cross_entropy": _cross_entropy,
    "bpr": _bpr,
    "margin": _margin,
    "contrastive": _contrastive,
    "adversarial": _adversarial,
}


def focal_loss(
    logits: Tensor, labels: Tensor, gamma: float = 2.0, *, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Cross entropy times (1 - p)^gamma, where p is the probability of the right class, https://arxiv.org/abs/1708.02002.

    Args:
        logits: [n, classes] with labels int64 [n]; or of labels of 0 and 1 of the logits' shape, for binary classes.
        weight: of rows, [n] or of the labels' shape.
        reduction: "mean" or "none".
    """
    is_binary = logits.shape == labels.shape
    if is_binary:
        losses = binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    else:
        losses = cross_entropy(logits, labels, reduction="none")
    return _reduced((-torch.expm1(-losses)).pow(gamma) * losses, weight, reduction)


def quantile_loss(
    predicted: Tensor, target: Tensor, quantile: float = 0.5, *, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The pinball loss, which is least where a share `quantile` of the targets lies below the predicted value."""
    if not 0 < quantile < 1:
        raise InputError(f"quantile is {quantile}", "Give a number between 0 and 1.")
    missing = target - predicted
    return _reduced(torch.maximum(quantile * missing, (quantile - 1) * missing), weight, reduction)


def _reduced(losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    if reduction not in ("mean", "none"):
        raise InputError(f"reduction is {reduction!r}", 'Choose "mean" or "none".')
    if weight is not None:
        losses = losses * weight
    if reduction == "none":
        return losses
    return losses.mean() if weight is None else losses.sum() / weight.expand_as(losses).sum()


class TargetScale(torch.nn.Module):
    """Mean and standard deviation of the targets of training, by column, as part of a model's state.

        scale = TargetScale(y[train])
        loss = mse_loss(model(x), scale(y))           # a model that learns scaled targets
        predicted = scale.inverse(model(x))

    Targets that are nan are left out; a column that does not vary is only moved.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, targets: Tensor) -> None:
        super().__init__()
        known = torch.where(targets.isfinite(), targets.double(), torch.nan)
        mean = known.nanmean(0)
        std = (known - mean).square().nanmean(0).sqrt()
        if not bool(mean.isfinite().all()):
            raise InputError("TargetScale: a column has no targets", "Give the targets of training nodes or edges.")
        self.register_buffer("mean", mean.float())
        self.register_buffer("std", torch.where(std > 0, std, 1.0).float())

    def forward(self, targets: Tensor) -> Tensor:
        """Targets of mean 0 and standard deviation 1."""
        return (targets - self.mean) / self.std

    def inverse(self, predicted: Tensor) -> Tensor:
        """Predicted values in units of the targets."""
        return predicted * self.std + self.mean
