# SPDX-License-Identifier: Apache-2.0
"""Scores of links, of binary classes and of regression, exact and at size.

    ranks = strata.metrics.link_ranks(decoder, x, head, relation, tail, known=strata.metrics.KnownEdges(...))
    strata.metrics.ranking(ranks)                 # {"count": ..., "mrr": ..., "hits@1": ..., "hits@3": ..., "hits@10": ...}

All take tensors on the CPU or on a GPU. With over_ranks=True every rank of torch.distributed gives its part of the edges, nodes or
scores, maybe none, and gets the scores of all of them; this is collective. Rankings are sums of integers: the same on any number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.distributed as distributed
from torch import Tensor

from strata._default_group import device_of_group, gathered, size_of_group
from strata._link_ranks import KnownEdges, link_ranks
from strata.errors import InputError

__all__ = [
    "KnownEdges",
    "average_precision",
    "hits_at",
    "link_ranks",
    "ranking",
    "ranks_among",
    "regression",
    "roc_auc",
]

_USER = "metrics of several ranks add up"
_UNIT = 1 << 32  # of sums of reciprocal ranks, which hold those of 2 billion edges


def ranks_among(positive: Tensor, negative: Tensor) -> Tensor:
    """The rank of each score [E] among its own negatives [E, K], from 1, float64 [E]; ties count half.

    ranking() of them gives the MRR of OGB's Evaluator.
    """
    if negative.dim() != 2 or positive.shape != negative.shape[:1]:
        raise InputError(
            f"positive is {list(positive.shape)}, negative {list(negative.shape)}",
            "Give scores [E] of edges and [E, K] of negatives.",
        )
    _check_numbers(positive, negative)
    mine = positive.unsqueeze(1)
    return 1 + (negative > mine).sum(1).double() + (negative == mine).sum(1).double() / 2


def ranking(
    ranks: Tensor,
    hits: Sequence[int] = (1, 3, 10),
    *,
    groups: Tensor | None = None,
    num_groups: int | None = None,
    over_ranks: bool = False,
) -> dict[str, float | Tensor]:
    """Count, mean reciprocal rank, mean rank and the share of ranks up to K, by names such as "hits@10".

    Args:
        ranks: of link_ranks() or ranks_among(), those of both sides together, torch.cat([of_tails, of_heads]), or of one.
        hits: values of K.
        groups: int64 [E], such as the relation of each edge: the result has tensors [num_groups], nan where a group is empty.
        over_ranks: whether the ranks of torch.distributed add up what they have.
    """
    if (groups is None) != (num_groups is None):
        raise InputError(
            "groups and num_groups belong together", "Give both, such as relation and its number of relations, or none."
        )
    size = 1 if num_groups is None else num_groups
    twice = (2 * ranks).round().long()
    of_edge = torch.stack(
        [
            torch.ones_like(twice),
            (4 * _UNIT + twice) // (2 * twice),  # 1 / rank, rounded
            twice,
            *[(twice <= 2 * most).long() for most in hits],
        ]
    )
    where = torch.zeros_like(twice) if groups is None else groups.to(twice.device)
    sums = of_edge.new_zeros(len(of_edge), size).index_add_(1, where, of_edge)
    if over_ranks:
        sums = _summed(sums)
    shares = sums.double() / sums[0]
    values = {"count": sums[0], "mrr": shares[1] / _UNIT, "mean_rank": shares[2] / 2}
    values |= {f"hits@{most}": shares[3 + number] for number, most in enumerate(hits)}
    return {name: value.item() if groups is None else value for name, value in values.items()}


def hits_at(positive: Tensor, negative: Tensor, most: int, *, over_ranks: bool = False) -> float:
    """OGB's Hits@K: the share of positive scores [E] above the K-th highest of negative scores [N], which all edges share.

    1 if there are fewer than K negatives.
    """
    if most < 1:
        raise InputError(f"K is {most}", "Give a number of negatives, 1 or more.")
    _check_numbers(positive, negative)
    negative = negative.flatten()
    best = negative.topk(min(most, len(negative))).values
    if over_ranks:
        best = _all_of(best)
        best = best.topk(min(most, len(best))).values
    above = positive > best[-1] if len(best) == most else torch.ones_like(positive, dtype=torch.bool)
    counts = torch.tensor([int(above.sum()), above.numel()], device=positive.device)
    if over_ranks:
        counts = _summed(counts)
    hit, count = counts.tolist()
    return hit / count if count else math.nan


def roc_auc(scores: Tensor, labels: Tensor, *, over_ranks: bool = False) -> float:
    """The area under the ROC curve of scores [n] and labels [n] of 0 and 1, exact; ties count half. nan without both labels."""
    counts = _by_threshold(scores, labels, over_ranks)
    positive, negative = counts.unbind(1)
    above = positive.cumsum(0) - positive
    wins = (negative * (2 * above + positive)).sum()
    pairs = 2 * int(positive.sum()) * int(negative.sum())
    return int(wins) / pairs if pairs else math.nan


def average_precision(scores: Tensor, labels: Tensor, *, over_ranks: bool = False) -> float:
    """The sum over thresholds of the precision times the gain of recall, as scikit-learn has it. nan without positive labels."""
    counts = _by_threshold(scores, labels, over_ranks)
    positive = counts[:, 0]
    found, chosen = positive.cumsum(0), counts.sum(1).cumsum(0)
    total = int(positive.sum())
    return float((positive * (found.double() / chosen)).sum()) / total if total else math.nan


def regression(predicted: Tensor, target: Tensor, *, over_ranks: bool = False) -> dict[str, float]:
    """ "rmse", "mae" and "r2" of values [n] or [n, targets]. Targets that are nan are left out; R2 is the mean over columns."""
    if predicted.shape != target.shape:
        raise InputError(f"predicted is {list(predicted.shape)}, target {list(target.shape)}", "Give tensors of equal shapes.")
    predicted, target = (values.double().view(len(values), math.prod(values.shape[1:])) for values in (predicted, target))
    known = ~target.isnan()
    target = torch.where(known, target, 0)
    error = torch.where(known, predicted - target, 0)
    sums = torch.stack([known.double().sum(0), target.sum(0), error.square().sum(0), error.abs().sum(0)])
    sums = _summed(sums) if over_ranks else sums
    count, total, squares, absolute = sums
    spread = torch.where(known, target - total / count, 0).square().sum(0)
    spread = _summed(spread) if over_ranks else spread
    return {
        "rmse": math.sqrt(float(squares.sum() / count.sum())),
        "mae": float(absolute.sum() / count.sum()),
        "r2": float((1 - squares / spread).mean()),
    }


def _by_threshold(scores: Tensor, labels: Tensor, over_ranks: bool) -> Tensor:
    """Numbers of positive and negative labels of each distinct score, from the highest, int64 [thresholds, 2]."""
    scores, labels = scores.flatten(), labels.flatten()
    if scores.shape != labels.shape:
        raise InputError(f"{len(scores)} scores, but {len(labels)} labels", "Give one label for each score.")
    _check_numbers(scores)
    if over_ranks:
        scores, labels = _all_of(scores), _all_of(labels)
    if not bool(((labels == 0) | (labels == 1)).all()):
        raise InputError("labels are not 0 and 1", "Give labels of two classes.")
    values, where = torch.unique(-scores, return_inverse=True)
    return torch.zeros(len(values), 2, dtype=torch.int64, device=scores.device).index_add_(
        0, where, torch.stack([labels == 1, labels == 0], dim=1).long()
    )


def _check_numbers(*tensors: Tensor) -> None:
    if any(bool(tensor.isnan().any()) for tensor in tensors):
        raise InputError("a score is nan", "Find out where the model's rows stopped being numbers; a score of nan has no rank.")


def _summed(sums: Tensor) -> Tensor:
    if size_of_group(_USER) == 1:
        return sums
    total = sums.to(device_of_group(), copy=True)
    distributed.all_reduce(total)
    return total.to(sums.device)


def _all_of(values: Tensor) -> Tensor:
    """All ranks' values [n], one rank's after the other's."""
    if size_of_group(_USER) == 1:
        return values
    device = device_of_group()
    counts = gathered(torch.tensor([len(values)], device=device)).tolist()
    padded = torch.nn.functional.pad(values.to(device), (0, max(counts) - len(values)))
    pieces = gathered(padded).view(len(counts), -1)
    return torch.cat([piece[:count] for piece, count in zip(pieces, counts)]).to(values.device)
