# SPDX-License-Identifier: Apache-2.0
"""Batches of edges to predict by DGL's names."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strata import links
from strata._dgl_blocks import import_dgl
from strata.dgl.blocks import EID, NID, Block
from strata.errors import InputError

if TYPE_CHECKING:
    from strata.batches import BlockBatch
    from strata.dgl.dataloading import NeighborSampler
    from strata.dgl.negative_sampler import GlobalUniform, PerSourceUniform


class EdgePredictionSampler:
    """What as_edge_prediction_sampler() returns."""

    def __init__(
        self,
        sampler: NeighborSampler,
        exclude: str | None,
        reverse_eids: Any,
        reverse_etypes: Any,
        negatives: PerSourceUniform | GlobalUniform | None,
    ) -> None:
        if exclude not in (None, "self", "reverse_id", "reverse_types"):
            raise InputError(
                f"exclude={exclude!r} is not possible",
                'Choose None, "self", "reverse_id", with reverse_eids, or "reverse_types", with reverse_etypes.',
            )
        for word, given in (("reverse_id", reverse_eids), ("reverse_types", reverse_etypes)):
            if (exclude == word) != (given is not None):
                name = "reverse_eids" if word == "reverse_id" else "reverse_etypes"
                raise InputError(f'exclude="{word}" and {name} belong together', "Give both, or neither.")
        if negatives is not None and not hasattr(negatives, "to_strata"):
            raise InputError(
                f"negative_sampler is a {type(negatives).__name__}",
                "Give strata.dgl.negative_sampler.Uniform(k) or GlobalUniform(k), or take strata.LinkLoader.",
            )
        self.sampler = sampler
        self.exclude = exclude
        self.reverse_eids, self.reverse_etypes = reverse_eids, reverse_etypes
        self.negatives = negatives
        self.feature_name, self.label_name = sampler.feature_name, None


class PairGraph:
    """Pairs of nodes by DGL's names: edges() are numbers of nodes, of which ndata[NID] has the ids."""

    is_block = False

    def __init__(self, src: Tensor, dst: Tensor, nodes: Tensor, edge_ids: Tensor | None) -> None:
        self._ends = src, dst
        self.ndata: dict[str, Tensor] = {NID: nodes}
        self.edata: dict[str, Tensor] = {} if edge_ids is None else {EID: edge_ids}

    def edges(self) -> tuple[Tensor, Tensor]:
        """Sources and destinations, int64 [pairs] each."""
        return self._ends

    def num_nodes(self) -> builtins.int:
        """The ends of pairs and negatives together, each once."""
        return len(self.ndata[NID])

    def num_edges(self) -> builtins.int:
        """The pairs."""
        return len(self._ends[0])

    number_of_nodes, number_of_edges = num_nodes, num_edges

    @property
    def device(self) -> torch.device:
        """Where its tensors lie."""
        return self._ends[0].device

    def to_dgl(self) -> Any:
        """The same as a graph of DGL's."""
        dgl = import_dgl()
        made = dgl.graph(self._ends, num_nodes=self.num_nodes())
        made.ndata[dgl.NID] = self.ndata[NID]
        if EID in self.edata:
            made.edata[dgl.EID] = self.edata[EID]
        return made


class PairLoader(links.LinkLoader):
    """A LinkLoader of this package's blocks."""

    _block_class = Block


def pair_graphs(sample: BlockBatch, eids: Tensor, has_negatives: bool) -> tuple[PairGraph, PairGraph | None]:
    """The graphs of a batch's edges and of its negatives, over the same nodes."""
    fields, nodes = vars(sample), sample.output_nodes
    of_batch = eids.to(sample.input_id.device)[sample.input_id]
    if "edge_label_index" in fields:
        (src, dst), (other_src, other_dst) = fields["edge_label_index"].tensor_split([len(of_batch)], dim=1)
        graph = PairGraph(src, dst, nodes, of_batch)
        return graph, PairGraph(other_src, other_dst, nodes, None) if has_negatives else None
    src, drawn = fields["src_index"], fields["dst_neg_index"]
    pairs = PairGraph(src, fields["dst_pos_index"], nodes, of_batch)
    return pairs, PairGraph(src.repeat_interleave(drawn[:1].numel()), drawn.reshape(-1), nodes, None)
