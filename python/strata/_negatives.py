# SPDX-License-Identifier: Apache-2.0
"""Pairs that are no links."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from strata import _arguments, _core
from strata._arrays import host_array, ids_array
from strata._links import Links, destinations_of, relation_of
from strata._process import together
from strata.errors import InputError
from strata.graph import Graph

if TYPE_CHECKING:
    import torch

_MODES = ("binary", "triplet", "joint", "in_batch", "listed")


class NegativeSampling:
    """How pairs that are no links are made, as torch_geometric.sampler.NegativeSampling says it, and in further ways.

    Draws are keyed by the loader's seed, the epoch, the step and the link or group, so that any number of ranks draws the same.

    Args:
        mode:
            "binary": amount pairs per link, whose ends are both drawn.
            "triplet": amount destinations for each link's source.
            "joint": amount destinations for each group of links, with which all links of the group are compared.
            "in_batch": the destinations of a group's links; each link is compared with those of the others.
            "listed": candidates[i] are the destinations for link i.
        amount: per link or group; a whole number except of "binary".
        src_weight, dst_weight: [nodes of the type]; ends are drawn in proportion to them. degree ** 0.75 is a usual one.
        strict: a pair that is an edge of the links' relation is drawn anew, at most five times; of "binary", one that is an edge still
            is left out, and the loader's failed_draws counts these. For "binary" and "triplet"; all neighbor lists must lie on this
            machine.
        self_loops: False: strict pairs are never a node with itself.
        group: links with so many consecutive numbers in a step, of all ranks, are a group; None: all links of a step are one.
        candidates: int64 [links, K], nodes of the destinations' type, for "listed".
    """

    def __init__(
        self,
        mode: Literal["binary", "triplet", "joint", "in_batch", "listed"] = "binary",
        amount: float = 1,
        src_weight: Any = None,
        dst_weight: Any = None,
        *,
        strict: bool = False,
        self_loops: bool = True,
        group: int | None = None,
        candidates: Any = None,
    ) -> None:
        word = getattr(mode, "value", mode)
        if word not in _MODES:
            raise InputError(f"the mode of negatives is {mode!r}", f"Choose one of {', '.join(_MODES)}.")
        if not amount > 0:
            raise InputError(f"the amount of negatives is {amount}", "Give a number above 0, such as 1.")
        if word != "binary" and amount != math.ceil(amount):
            raise InputError(f"the amount of negatives is {amount}, but {word} needs a whole number", "Give 1 or more.")
        self.mode: str = word
        self.amount = amount if word == "binary" else math.ceil(amount)
        self.src_weight = src_weight
        self.dst_weight = dst_weight
        self.strict = _arguments.flag(strict, "strict")
        self.self_loops = _arguments.flag(self_loops, "self_loops")
        self.group = 0 if group is None else _arguments.integer(group, "group", 1)
        self.candidates = None if candidates is None else ids_array(candidates, "candidates")
        self._check()

    def _check(self) -> None:
        if self.strict and self.mode not in ("binary", "triplet"):
            raise InputError(f"strict negatives are not possible with {self.mode!r}", 'Choose "binary" or "triplet".')
        if not self.self_loops and not self.strict:
            raise InputError("self_loops=False without strict=True has no effect", "Give both.")
        if self.group and not self.is_shared():
            raise InputError(f"{self.mode!r} has no groups", 'Leave group out, or choose "joint" or "in_batch".')
        if (self.mode == "listed") != (self.candidates is not None):
            raise InputError('"listed" and candidates belong together', "Give both, or neither.")
        if self.candidates is not None:
            if self.candidates.ndim != 2 or not self.candidates.shape[1]:
                raise InputError(f"candidates have the shape {self.candidates.shape}", "Give [links, K].")
            self.amount = self.candidates.shape[1]

    def is_binary(self) -> bool:
        """Whether both ends are drawn."""
        return self.mode == "binary"

    def is_triplet(self) -> bool:
        """Whether destinations are drawn for the sources of links."""
        return self.mode == "triplet"

    def is_shared(self) -> bool:
        """Whether all links of a group are compared with the same negatives."""
        return self.mode in ("joint", "in_batch")

    @classmethod
    def cast(cls, value: Any) -> NegativeSampling | None:
        """One of these of PyG's, of a mode, or of a dict or tuple of arguments; None: none."""
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(value)  # type: ignore[arg-type]  # which it checks
        if isinstance(value, Mapping):
            return cls(**value)
        if isinstance(value, (tuple, list)):
            return cls(*value)
        if hasattr(value, "mode") and hasattr(value, "amount"):
            return cls(value.mode, value.amount, value.src_weight, value.dst_weight)
        raise TypeError(f"neg_sampling is {value!r}; give strata.NegativeSampling, PyG's, or a mode")

    def at(self, positions: torch.Tensor) -> NegativeSampling:
        """The same for the links at these positions."""
        if self.candidates is None:
            return self
        return NegativeSampling("listed", candidates=self.candidates[positions.numpy()])

    def to_core(self, graph: Graph, links: Links, original: bool | None) -> _core.NegativeOptions:
        """What the extension takes. Collective."""
        together(lambda: self._check_candidates(relation_of(graph, links.relation).destinations[1], links.size))
        listed = None
        if self.candidates is not None:
            listed = destinations_of(graph, links.relation, self.candidates.reshape(-1), original)
        return together(
            lambda: _core.NegativeOptions.make(
                mode=self.mode,
                amount=float(self.amount),
                source_weights=_weights(self.src_weight, "src_weight"),
                destination_weights=_weights(self.dst_weight, "dst_weight"),
                strict=self.strict,
                self_loops=self.self_loops,
                group=self.group,
                listed=listed,
            )
        )

    def _check_candidates(self, num_nodes: int, num_links: int) -> None:
        ids = self.candidates
        if ids is None:
            return
        if len(ids) != num_links:
            raise InputError(f"candidates have {len(ids)} rows for {num_links} links", "Give a row for each link.")
        if ids.size and not 0 <= ids.min() <= ids.max() < num_nodes:
            raise IndexError(f"candidates are {ids.min()} to {ids.max()}, but there are {num_nodes} nodes of their type")


def _weights(values: Any, name: str) -> Any:
    return None if values is None else host_array(values, name).reshape(-1).astype("float64")
