# SPDX-License-Identifier: Apache-2.0
"""Scores of a model that fit() trains, over all ranks."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strata import _arguments
from strata._labels import Labels, Loss
from strata._layerwise import infer
from strata._process import process
from strata._ranks_of_torch import Ranks
from strata.errors import InputError
from strata.loaders import NodeLoader
from strata.training import Scores

if TYPE_CHECKING:
    from strata.graph import Graph

_NO_SCORES = Scores(0, math.nan, math.nan, math.nan, math.nan)
_MOST_OF_CONFUSION = 100  # classes


@dataclasses.dataclass
class Evaluator:
    """Scores the validation and the test nodes: exactly while `fanouts` is None and the model can be computed so, else by a loader."""

    model: torch.nn.Module
    graph: Graph
    form: str
    labels: Labels
    loss: Loss
    ranks: Ranks
    batch_size: int
    fanouts: Sequence[int] | None
    usual_fanouts: Sequence[int]
    loader_of: Callable[[str, Sequence[int]], Any]
    out_of: Callable[[torch.nn.Module, Any], tuple[Tensor, Any, Any]]

    def scores(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Scores by split, and the fields of the record of classes, if they are counted. Collective."""
        self.model.eval()
        with torch.no_grad():
            logits = self._logits()
            (valid, _), (test, confusion) = (self._scored(split, logits) for split in ("valid", "test"))
        is_table = confusion is not None and self.labels.kind == "classes"
        return {"valid": _record_of(valid), "test": _record_of(test)}, _fields_of(confusion) if is_table else None

    def _logits(self) -> Tensor | None:
        """What the model gives for all nodes; None if they are to be sampled."""
        if self.fanouts is not None:
            return None
        try:
            return infer(self.model, self.graph, self.form, 4 * self.batch_size, len(self.usual_fanouts), self.ranks)
        except InputError as error:
            self.fanouts = self.usual_fanouts
            if process().rank == 0:
                words = f"evaluation samples neighbors, by the fanouts of training, because {str(error).splitlines()[0]}"
                warnings.warn(words, stacklevel=_arguments.caller())
            return None

    def _scored(self, split: str, logits: Tensor | None) -> tuple[Scores, Tensor | None]:
        if len(self.graph.nodes(split)) == 0:
            return _NO_SCORES, None
        sums, confusion = torch.zeros(3, dtype=torch.float64), self.labels.new_confusion()
        loader = self._seeds_of(split) if logits is not None else self.loader_of(split, self.fanouts or self.usual_fanouts)
        for item in loader:
            if logits is None:
                out, y, _ = self.out_of(self.model, item)
            else:
                batch, _, y = item
                out = logits[batch.output_nodes.cpu()].to(y.device)
            total, counted = self.loss.of(out, y, None)
            sums += torch.stack([total, self.labels.num_correct(out, y, counted), counted.sum()]).cpu()
            if confusion is not None:
                self.labels.count(confusion, out, y)
        loader.close()
        total, correct, count = self.ranks.sum(sums).tolist()
        confusion = None if confusion is None else self.ranks.sum(confusion)
        accuracy = correct / count if self.labels.has_classes and count else math.nan
        return Scores(int(count), total / max(1.0, count), accuracy, self.labels.macro_f1(confusion), math.nan), confusion

    def _seeds_of(self, split: str) -> NodeLoader:
        """Batches of the split's nodes with their labels, whose features nobody reads."""
        return NodeLoader(self.graph, split, fanouts=[1], batch_size=8 * self.batch_size, features=True, transposes=False)


def _record_of(scores: Scores) -> dict[str, Any]:
    """Without those of regression, which strata-train has."""
    return {name: value for name, value in dataclasses.asdict(scores).items() if name not in ("rmse", "mae", "r2")}


def _fields_of(confusion: Tensor | None) -> dict[str, Any]:
    assert confusion is not None
    counts = confusion.long()
    return {
        "labelled": counts.sum(1).tolist(),
        "predicted": counts.sum(0).tolist(),
        "correct": counts.diagonal().tolist(),
        "confusion": counts.tolist() if len(counts) <= _MOST_OF_CONFUSION else None,
    }
