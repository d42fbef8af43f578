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
