# SPDX-License-Identifier: Apache-2.0
"""Blocks of graphs of several types by DGL's names."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from strata import batches
from strata._arrays import on_device
from strata._dgl_blocks import create_block
from strata._types import EdgeType, Types
from strata.dgl.blocks import EID, NID, Block
from strata.dgl.graphs import Int64Ids, restored
from strata.errors import InputError

Frames = dict[Any, dict[str, Tensor]]


class TypedRows(MutableMapping[str, Any]):
    """srcdata, dstdata or edata: for each name {type: rows}, or the rows where there is only one type."""

    def __init__(self, frames: Frames, type_of: Callable[[Any], Any]) -> None:
        self._frames, self._type_of = frames, type_of

    def __getitem__(self, name: str) -> Any:
        found = {kind: frame[name] for kind, frame in self._frames.items() if name in frame}
        if not found:
            raise KeyError(name)
        return found if len(self._frames) > 1 else next(iter(found.values()))

    def __setitem__(self, name: str, rows: Any) -> None:
        if not isinstance(rows, Mapping):
            if len(self._frames) > 1:
                raise InputError(f"{name!r} is one tensor for {len(self._frames)} types", "Give {type: rows}.")
            rows = dict.fromkeys(self._frames, rows)
        for kind, of_type in rows.items():
            self._frames[self._type_of(kind)][name] = of_type

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        for frame in self._frames.values():
            frame.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for frame in self._frames.values() for name in frame))

    def __len__(self) -> int:
        return len(list(iter(self)))


class OfType(NamedTuple):
    """What block.srcnodes["paper"] is."""

    data: dict[str, Tensor]


class TypedView:
    """block.srcnodes, dstnodes and edges: to be called, or to be indexed by a type, whose rows are `data`."""

    def __init__(self, frames: Frames, type_of: Callable[[Any], Any], call: Callable[..., Any]) -> None:
        self._frames, self._type_of, self._call = frames, type_of, call

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._call(*args, **options)

    def __getitem__(self, kind: Any) -> OfType:
        return OfType(self._frames[self._type_of(kind)])


class RelationBlock(Block):
    """One relation of a block: its sources and destinations are nodes of two types, or different nodes of one."""

    def __init__(self, src: dict[str, Tensor], dst: dict[str, Tensor], edges: dict[str, Tensor], **fields: Any) -> None:
        super().__init__(None, **fields)
        self.__dict__ |= {"srcdata": src, "dstdata": dst, "edata": edges}
        self.canonical_etypes: list[EdgeType] = []

    def to_dgl(self) -> Any:
        """A block of DGL's on the same device, with all of srcdata, dstdata and edata."""
        kind = self.canonical_etypes[0]
        return create_block({kind: self}, {kind[0]: self.srcdata}, {kind[2]: self.dstdata})


class _Split(NamedTuple):
    """A block's nodes and edges, sorted by type."""

    num_src: list[int]
    num_dst: list[int]
    num_edges: list[int]
    order: Tensor  # of sources
    places: Tensor  # of sources within their types
    edge_order: Tensor


class HeteroBlock(Int64Ids, batches.Block):
    """A block of a graph of several types that answers to DGL's names, by which nodes count within their types.

        x = {kind: block.srcdata["feat"][kind] for kind in block.srctypes}
        x["paper"][: block.num_dst_nodes("paper")]               # the destinations are the first of their type
        block["author", "writes", "paper"]                       # a strata.dgl.Block of one relation

    Layers of strata.nn take it as a strata.Block over the nodes of all types.
    """

    _of: Types
    _ids: Tensor  # of the sources in the input

    def describe(self, types: Types, ids: Tensor) -> None:
        """What a loader adds: the graph's types, and the input's numbers of the nodes."""
        self._of, self._ids = types, ids[: self.num_src]

    @cached_property
    def _split(self) -> _Split:
        assert self.types is not None
        of_nodes, of_edges = self.types.of_nodes, self.types.of_edges
        kinds, relations = len(self._of.node_types), len(self._of.edge_types)
        counts = [torch.bincount(of_nodes, minlength=kinds), torch.bincount(of_nodes[: self.num_dst], minlength=kinds)]
        num = torch.cat([*counts, torch.bincount(of_edges, minlength=relations)]).tolist()
        sorted_types, order = of_nodes.sort(stable=True)
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device) - (counts[0].cumsum(0) - counts[0])[sorted_types]
        edge_order = of_edges.sort(stable=True).indices
        return _Split(num[:kinds], num[kinds : 2 * kinds], num[2 * kinds :], order, places, edge_order)

    def rows_by_type(self, rows: Tensor, is_src: bool) -> dict[str, Tensor]:
        """Rows of all sources, or of all destinations, as those of each type."""
        split = self._split
        order = split.order if is_src else split.order[split.order < self.num_dst]
        return dict(zip(self.srctypes, torch.split(rows[order], split.num_src if is_src else split.num_dst)))

    def places_of(self, places: Tensor) -> Tensor:
        """Where nodes are among those of their types, of places among all sources."""
        return self._split.places[places]

    @cached_property
    def _src(self) -> Frames:
        assert self.types is not None
        ids = self._ids - on_device(self._of.node_offsets[:-1], self.device)[self.types.of_nodes]
        return {kind: {NID: part} for kind, part in self.rows_by_type(ids, is_src=True).items()}

    @cached_property
    def _dst(self) -> Frames:
        return {kind: {NID: self._src[kind][NID][:count]} for kind, count in zip(self.dsttypes, self._split.num_dst)}

    @cached_property
    def _edges(self) -> Frames:
        assert self.edge_ids is not None
        parts = torch.split(self.edge_ids[self._split.edge_order], self._split.num_edges)
        return {kind: {EID: part - first} for kind, part, first in zip(self.canonical_etypes, parts, self._of.edge_offsets)}

    @cached_property
    def _ends(self) -> dict[EdgeType, tuple[Tensor, Tensor]]:
        """Sources and destinations of the edges of each relation, within their types."""
        ends = self._split.places[self.edge_index[:, self._split.edge_order]]
        return {
            kind: (part[0], part[1]) for kind, part in zip(self.canonical_etypes, torch.split(ends, self._split.num_edges, 1))
        }

    def _node_type(self, kind: Any) -> str:
        if kind is None and len(self.srctypes) == 1:
            return self.srctypes[0]
        if kind not in self.srctypes:
            raise InputError(f"the block has no type of nodes {kind!r}", f"Choose one of {self.srctypes}.")
        return str(kind)

    def _edge_type(self, kind: Any) -> EdgeType:
        return self._of.edge_types[0] if kind is None and len(self._of.edge_types) == 1 else self.to_canonical_etype(kind)

    # ---- DGL's names ----

    @property
    def srctypes(self) -> list[str]:
        """The graph's types of nodes, also those that the block has no nodes of."""
        return self._of.node_types

    dsttypes = srctypes

    @property
    def ntypes(self) -> list[str]:
        """The types of sources, then those of destinations."""
        return self.srctypes + self.dsttypes

    @property
    def canonical_etypes(self) -> list[EdgeType]:
        """The graph's relations, also those that the block has no edges of."""
        return self._of.edge_types

    @property
    def etypes(self) -> list[str]:
        """The names of the relations."""
        return [kind[1] for kind in self.canonical_etypes]

    def to_canonical_etype(self, etype: Any) -> EdgeType:
        """The relation of this name."""
        if etype is None:
            raise InputError("the block has several relations", f"Choose one of {self.canonical_etypes}.")
        return self._of.edge_type(etype)

    @cached_property
    def srcdata(self) -> TypedRows:
        """Of the sources, {type: [n, ...]} for each name: their ids within the type as NID, and what a program adds."""
        return TypedRows(self._src, self._node_type)

    @cached_property
    def dstdata(self) -> TypedRows:
        """Of the destinations, as srcdata."""
        return TypedRows(self._dst, self._node_type)

    @cached_property
    def edata(self) -> TypedRows:
        """Of the edges, {relation: [E, ...]} for each name: their ids within the relation as EID, and what a program adds."""
        return TypedRows(self._edges, self._edge_type)

    @property
    def srcnodes(self) -> TypedView:
        """srcnodes("paper") is int64 [n], 0, 1 ...; srcnodes["paper"].data has rows by name."""
        return TypedView(
            self._src, self._node_type, lambda ntype=None: self._numbers(self.num_src_nodes(self._node_type(ntype)))
        )

    @property
    def dstnodes(self) -> TypedView:
        """The same of destinations."""
        return TypedView(
            self._dst, self._node_type, lambda ntype=None: self._numbers(self.num_dst_nodes(self._node_type(ntype)))
        )

    @property
    def edges(self) -> TypedView:
        """edges(etype=relation) are two of int64 [E], sources and destinations within their types; edges[relation].data has rows."""
        return TypedView(self._edges, self._edge_type, lambda etype=None: self._ends[self._edge_type(etype)])

    def _numbers(self, count: builtins.int) -> Tensor:
        return torch.arange(count, device=self.device)

    def num_src_nodes(self, ntype: Any = None) -> builtins.int:
        """Sources of a type, or of all."""
        return self.num_src if ntype is None else self._split.num_src[self.srctypes.index(self._node_type(ntype))]

    def num_dst_nodes(self, ntype: Any = None) -> builtins.int:
        """Destinations of a type, or of all; they are the first among the sources of the type."""
        return self.num_dst if ntype is None else self._split.num_dst[self.dsttypes.index(self._node_type(ntype))]

    def num_nodes(self, ntype: Any = None) -> builtins.int:
        """Sources and destinations together, as of DGL's blocks."""
        return self.num_src_nodes(ntype) + self.num_dst_nodes(ntype)

    def num_edges(self, etype: Any = None) -> builtins.int:
        """Edges of a relation, or of all."""
        if etype is None:
            return self.indices.numel()
        return self._split.num_edges[self.canonical_etypes.index(self.to_canonical_etype(etype))]

    number_of_src_nodes, number_of_dst_nodes, number_of_edges = num_src_nodes, num_dst_nodes, num_edges
    number_of_nodes = num_nodes

    def __getitem__(self, etype: Any) -> RelationBlock:
        """The block of one relation, by its name or triple, which shares this block's rows."""
        kind = self.to_canonical_etype(etype)
        src, dst = self._ends[kind]
        num_dst = self.num_dst_nodes(kind[2])
        indptr = torch.zeros(num_dst + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(torch.bincount(dst, minlength=num_dst), 0, out=indptr[1:])
        edges = self._edges[kind]
        made = RelationBlock(
            self._src[kind[0]],
            self._dst[kind[2]],
            edges,
            indptr=indptr,
            indices=src.int(),
            edge_ids=edges[EID],
            src_nodes=self._src[kind[0]][NID],
            num_src=self.num_src_nodes(kind[0]),
            num_dst=num_dst,
        )
        made.canonical_etypes = [kind]
        return made

    def in_degrees(self, v: Any = None, etype: Any = None) -> Tensor:
        """int64 [n]: how many edges of a relation these destinations have, by default all of them."""
        return self[self._edge_type(etype)].in_degrees(v)

    def out_degrees(self, u: Any = None, etype: Any = None) -> Tensor:
        """int64 [n]: how many edges of a relation these sources have, by default all of them."""
        return self[self._edge_type(etype)].out_degrees(u)

    @property
    def device(self) -> torch.device:
        """Where its tensors lie."""
        return self.indptr.device

    is_block, is_homogeneous = True, False

    @contextlib.contextmanager
    def local_scope(self) -> Iterator[None]:
        """What is put into srcdata, dstdata and edata within it is gone after it."""
        frames = [frame for of_types in (self._src, self._dst, self._edges) for frame in of_types.values()]
        with restored(*frames):
            yield

    def to(self, device: Any) -> HeteroBlock:
        """This block where it lies there already, else a copy."""
        if isinstance(device, int):
            device = torch.device("cuda", device)
        if torch.empty(0, device=device).device == self.device:
            return self
        fields: Any = (value.to(device) if isinstance(value, Tensor) else value for value in self)
        moved = HeteroBlock(*fields)
        moved.describe(self._of, self._ids.to(device))
        if self.types is not None:
            of_nodes, of_edges = self.types.of_nodes.to(device), self.types.of_edges.to(device)
            moved.types = self.types._replace(of_nodes=of_nodes, of_edges=of_edges)
        for name in ("_src", "_dst", "_edges"):
            for kind, frame in getattr(self, name).items():
                getattr(moved, name)[kind].update({key: value.to(device) for key, value in frame.items()})
        return moved

    def to_dgl(self) -> Any:
        """A block of DGL's of all relations on the same device, with all of srcdata, dstdata and edata."""
        return create_block({kind: self[kind] for kind in self.canonical_etypes}, self._src, self._dst)

    def __repr__(self) -> str:
        return f"strata.dgl.HeteroBlock(num_src={self.num_src}, num_dst={self.num_dst}, edges={len(self.indices)})"
