# SPDX-License-Identifier: Apache-2.0
"""dgl.dataloading.negative_sampler: how pairs that are no edges are drawn."""

from __future__ import annotations

from strata import _arguments
from strata.links import NegativeSampling


class PerSourceUniform:
    """`k` pairs for each edge, of its source and destinations drawn among all nodes; they may be edges. The same on any ranks."""

    def __init__(self, k: int) -> None:
        self.k = _arguments.integer(k, "k", 1)

    def to_strata(self) -> NegativeSampling:
        """The same for loaders of Strata."""
        return NegativeSampling("triplet", self.k)


class Uniform(PerSourceUniform):
    """PerSourceUniform by its older name."""


class GlobalUniform:
    """`k` pairs for each edge, whose ends are both drawn among all nodes, and which are no edges. The same on any ranks.

    Args:
        k: pairs per edge; those that are edges after six draws are left out.
        exclude_self_loops: whether no pair is a node with itself.
        replace, redundancy: without effect; a pair may come twice.
    """

    def __init__(self, k: int, exclude_self_loops: bool = True, replace: bool = False, redundancy: float | None = None) -> None:
        self.k = _arguments.integer(k, "k", 1)
        self.exclude_self_loops = _arguments.flag(exclude_self_loops, "exclude_self_loops")

    def to_strata(self) -> NegativeSampling:
        """The same for loaders of Strata."""
        return NegativeSampling("binary", self.k, strict=True, self_loops=not self.exclude_self_loops)
