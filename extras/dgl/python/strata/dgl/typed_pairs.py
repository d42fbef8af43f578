# SPDX-License-Identifier: Apache-2.0
"""Batches of edges to predict of graphs of several types by DGL's names."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from strata import links
from strata._dgl_blocks import import_dgl
from strata._types import EdgeType, Types
from strata.dgl.blocks import EID, NID
from strata.dgl.pairs import EdgePredictionSampler
from strata.dgl.typed_blocks import Frames, HeteroBlock, TypedRows, TypedView
from strata.dgl.typed_loaders import Prefetched, described, fanouts_of
from strata.errors import InputError
from strata.graph import Graph


class HeteroPairGraph:
    """Pairs of a relation's nodes by DGL's names: edges(etype=relation) are numbers of nodes, of which ndata[NID] has the ids by type.

    The nodes of all types are those of the last block's destinations.
    """

    is_block, is_homogeneous = False, False

    def __init__(
        self, types: Types, relation: EdgeType, ends: tuple[Tensor, Tensor], last: HeteroBlock, ids: Tensor | None
    ) -> None:
        self._types, self._relation, self._pairs = types, relation, ends
        self._nodes: Frames = {kind: {NID: last.dstnodes[kind].data[NID]} for kind in types.node_types}
        none = ends[0].new_empty(0)
        self._edges: Frames = {kind: {} if ids is None else {EID: none} for kind in types.edge_types}
        if ids is not None:
            self._edges[relation][EID] = ids
        self.ndata = TypedRows(self._nodes, self._node_type)
        self.edata = TypedRows(self._edges, self._edge_type)

    def _node_type(self, kind: Any) -> str:
        if kind not in self._nodes:
            raise InputError(f"the graph has no type of nodes {kind!r}", f"Choose one of {self.ntypes}.")
        return str(kind)

    def _edge_type(self, kind: Any) -> EdgeType:
        return self._relation if kind is None else self._types.edge_type(kind)

    @property
    def ntypes(self) -> list[str]:
        """The graph's types of nodes."""
        return self._types.node_types

    @property
    def canonical_etypes(self) -> list[EdgeType]:
        """The graph's relations; only one of them has pairs."""
        return self._types.edge_types

    @property
    def etypes(self) -> list[str]:
        """The names of the relations."""
        return [kind[1] for kind in self.canonical_etypes]

    @property
    def nodes(self) -> TypedView:
        """nodes("paper") is int64 [n], 0, 1 ...; nodes["paper"].data has rows by name."""
        return TypedView(self._nodes, self._node_type, lambda ntype: torch.arange(self.num_nodes(ntype), device=self.device))

    @property
    def edges(self) -> TypedView:
        """edges(etype=relation) are sources and destinations, int64 [pairs] each; by default those of the relation with pairs."""

        def ends(etype: Any = None) -> tuple[Tensor, Tensor]:
            none = self._pairs[0].new_empty(0)
            return self._pairs if self._edge_type(etype) == self._relation else (none, none)

        return TypedView(self._edges, self._edge_type, ends)

    def num_nodes(self, ntype: Any = None) -> builtins.int:
        """The ends of pairs and negatives of a type, or of all, each once."""
        kinds = self.ntypes if ntype is None else [self._node_type(ntype)]
        return sum(len(self._nodes[kind][NID]) for kind in kinds)

    def num_edges(self, etype: Any = None) -> builtins.int:
        """The pairs."""
        return len(self.edges(etype)[0])

    number_of_nodes, number_of_edges = num_nodes, num_edges

    @property
    def device(self) -> torch.device:
        """Where its tensors lie."""
        return self._pairs[0].device

    def to_dgl(self) -> Any:
        """The same as a graph of DGL's."""
        dgl = import_dgl()
        ends = {kind: self.edges(etype=kind) for kind in self.canonical_etypes}
        made = dgl.heterograph(ends, {kind: self.num_nodes(kind) for kind in self.ntypes})
        for kind, frame in self._nodes.items():
            made.nodes[kind].data.update(frame)
        for relation, frame in self._edges.items():
            made.edges[relation].data.update(frame)
        return made


class HeteroPairLoader(links.LinkLoader):
    """A LinkLoader of HeteroBlocks, which gives (input nodes, graphs of pairs, blocks, the batch)."""

    _block_class = HeteroBlock

    def __init__(self, graph: Graph, types: Types, indices: Any, edges: EdgePredictionSampler, **options: Any) -> None:
        relation, ids = _of_one_relation(types, indices)
        self._types, self._prefetched, self._edges = types, Prefetched(types, edges.sampler), edges
        self._relation, self._ids = relation, ids
        super().__init__(
            graph,
            (relation, ids),
            fanouts=fanouts_of(types, edges.sampler.fanouts),
            neg_sampling=None if edges.negatives is None else edges.negatives.to_strata(),
            exclude_seed_edges=edges.exclude is not None,
            reverse=_reverse_of(types, relation, edges),
            features=self._prefetched.has_joined,
            **options,
        )

    @property
    def num_given(self) -> int:
        """The number of edges to predict."""
        return len(self._ids)

    def __iter__(self) -> Iterator[Any]:
        for made in self._batches():
            sample = self._of_blocks(made)
            self._set_fields(sample, sample, sample, made, lambda places: places)
            blocks = described(sample, self._types, made)
            self._prefetched.put(blocks[0], blocks[-1], made)
            yield blocks[0].srcdata[NID], self._graphs(vars(sample), blocks[-1]), blocks, sample

    def _graphs(self, fields: dict[str, Any], last: HeteroBlock) -> list[HeteroPairGraph]:
        of_batch = self._ids.to(last.device)[fields["input_id"]]
        count = len(of_batch)
        if "edge_label_index" in fields:
            pairs, drawn = fields["edge_label_index"].tensor_split([count], dim=1)
        else:
            src, negatives = fields["src_index"], fields["dst_neg_index"]
            pairs = torch.stack([src, fields["dst_pos_index"]])
            drawn = torch.stack([src.repeat_interleave(negatives[:1].numel()), negatives.reshape(-1)])

        def graph(ends: Tensor, ids: Tensor | None) -> HeteroPairGraph:
            src, dst = last.places_of(ends)
            return HeteroPairGraph(self._types, self._relation, (src, dst), last, ids)

        return [graph(pairs, of_batch), *([] if self._edges.negatives is None else [graph(drawn, None)])]


def _of_one_relation(types: Types, indices: Any) -> tuple[EdgeType, Tensor]:
    if not isinstance(indices, Mapping) or len(indices) != 1:
        raise InputError(
            "edges to predict are not those of one relation",
            f"Give {{{types.edge_types[0]}: ids}}, and make a loader for each relation.",
        )
    ((key, ids),) = indices.items()
    return types.edge_type(key), torch.as_tensor(ids).cpu()


def _reverse_of(types: Types, relation: EdgeType, edges: EdgePredictionSampler) -> Any:
    """The relation whose edge of the same number is left out, too; False: none."""
    if edges.exclude == "reverse_id":
        raise InputError('exclude="reverse_id" is for graphs of one relation', 'Choose "reverse_types", with reverse_etypes.')
    reverses = {types.edge_type(one): types.edge_type(other) for one, other in (edges.reverse_etypes or {}).items()}
    return reverses.get(relation, False)
