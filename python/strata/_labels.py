# SPDX-License-Identifier: Apache-2.0
"""Labels of seeds: what a model is to give for them, its loss, and how right it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from strata._process import process
from strata.errors import InputError

if TYPE_CHECKING:
    from strata.graph import Graph

_MOST_CLASSES = 1000  # of which all pairs are counted


class Labels:
    """The kind of a graph's labels: classes, sets of classes, or targets."""

    def __init__(self, graph: Graph) -> None:
        has_targets = graph._attributes.targets is not None or graph._core.num_targets > 0
        if not has_targets and not graph._core.has_labels:
            raise InputError("the graph has no labels", "Give it some: y in the data, or from_tensors(edge_index, x, y).")
        self.kind = "targets" if has_targets else "sets" if graph._core.multi_label else "classes"
        self.num_classes = graph.num_classes

    @property
    def has_classes(self) -> bool:
        return self.kind != "targets"

    def check(self, out: Any, num_seeds: int, form: str) -> None:
        """InputError if a model's output cannot be rows of scores for so many seeds."""
        shape = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        if not isinstance(out, Tensor) or out.dim() == 0 or out.shape[0] != num_seeds:
            hint = "Its last layer's rows are those of the last block's destinations." if form == "blocks" else "It gives one row per node."
            raise InputError(f"the model gives {shape} for {num_seeds} seeds", hint)
        if self.has_classes and (out.dim() != 2 or out.shape[1] != self.num_classes):
            raise InputError(f"the model gives {shape} for {num_seeds} seeds of {self.num_classes} classes", f"Make it with {self.num_classes} outputs.")

    def is_labelled(self, y: Tensor) -> Tensor:
        """bool [n]: the seeds that have a label."""
        if self.kind == "classes":
            return y >= 0
        return ~y.isnan() if y.dim() == 1 else ~y.flatten(1).isnan().any(1)

    def num_correct(self, out: Tensor, y: Tensor, counted: Tensor) -> Tensor:
        """The number of counted seeds that are predicted correctly; of sets, the sum of their shares of correct classes."""
        if self.kind == "classes":
            right = (out.argmax(1) == y).float()
        elif self.kind == "sets":
            right = ((out > 0) == (y > 0.5)).float().mean(1)
        else:
            return torch.zeros((), device=out.device)
        return (right * counted).sum()

    def new_confusion(self) -> Tensor | None:
        """float64 [classes, classes] on the CPU for count(); None where it is not counted."""
        if self.kind == "targets" or self.num_classes > _MOST_CLASSES:
            return None
        shape = (self.num_classes, self.num_classes) if self.kind == "classes" else (3, self.num_classes)
        return torch.zeros(shape, dtype=torch.float64)

    def count(self, confusion: Tensor, out: Tensor, y: Tensor) -> None:
        """Adds seeds by label and prediction; of sets: those labelled, predicted and both, per class."""
        known = self.is_labelled(y)
        if self.kind == "classes":
            pairs = y[known] * self.num_classes + out.argmax(1)[known]
            confusion += torch.bincount(pairs, minlength=confusion.numel()).view(confusion.shape).cpu()
            return
        is_in, is_said = y[known] > 0.5, out[known] > 0
        confusion += torch.stack([is_in.sum(0), is_said.sum(0), (is_in & is_said).sum(0)]).cpu()

    def macro_f1(self, confusion: Tensor | None) -> float:
        """The mean over the classes that occur as a label or a prediction."""
        if confusion is None:
            return math.nan
        if self.kind == "classes":
            labelled, predicted, both = confusion.sum(1), confusion.sum(0), confusion.diagonal()
        else:
            labelled, predicted, both = confusion
        occurs = labelled + predicted > 0
        return float((2 * both[occurs] / (labelled + predicted)[occurs]).mean()) if bool(occurs.any()) else math.nan


class Loss:
    """The sum of the losses of seeds, without those that have no label."""

    def __init__(self, given: Callable[[Tensor, Tensor], Tensor] | None, labels: Labels) -> None:
        if given is None and labels.kind == "targets":
            raise InputError("the labels are numbers that are no classes", "Give a loss: loss=torch.nn.functional.mse_loss.")
        self._given = given
        self._labels = labels
        self._is_mean = False

    @property
    def why_unrecorded(self) -> str:
        """Why steps with it cannot be recorded; empty if they can."""
        return "the loss is a mean, which padding would change: give one per row, reduction=\"none\"" if self._is_mean else ""

    def try_out(self, out: Tensor, y: Tensor) -> None:
        """Finds out whether the user's function gives a mean. Collective."""
        if self._given is None:
            return
        is_mean = False
        if len(y):
            found = self._given(out, y)
            if not isinstance(found, Tensor) or (found.dim() > 0 and found.shape[0] != len(y)):
                shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
                raise InputError(f"loss gives {shape} for {len(y)} rows", "Return one loss per row, or their mean.")
            is_mean = found.dim() == 0
        self._is_mean = process().least(0 if is_mean else 1) == 0

    def of(self, out: Tensor, y: Tensor, seed_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """(the sum of losses, the seeds that are counted, bool [n]); seed_mask leaves out padding."""
        counted = self._labels.is_labelled(y)
        if seed_mask is not None:
            counted = counted & seed_mask
        if self._given is not None and self._is_mean:
            known = y[counted]
            if not len(known):
                return out.sum() * 0, counted
            return self._given(out[counted], known) * len(known), counted
        return (self._per_row(out, y, counted) * counted).sum(), counted

    def _per_row(self, out: Tensor, y: Tensor, counted: Tensor) -> Tensor:
        """Finite for each row, counted or not."""
        if self._labels.kind == "classes":
            safe = y.clamp(min=0)
        else:
            safe = y.nan_to_num(0.0)
        if self._given is not None:
            rows = self._given(out, safe)
        elif self._labels.kind == "classes":
            rows = F.cross_entropy(out, safe, reduction="none")
        else:
            rows = F.binary_cross_entropy_with_logits(out, safe.to(out.dtype), reduction="none")
        return rows.flatten(1).mean(1) if rows.dim() > 1 else rows
