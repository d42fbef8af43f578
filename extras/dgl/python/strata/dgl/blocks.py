# SPDX-License-Identifier: Apache-2.0
"""Blocks by DGL's names, and how frontiers become blocks."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strata import batches
from strata.dgl.graphs import Int64Ids, restored
from strata.errors import InputError

if TYPE_CHECKING:
    from strata.dgl.sampling import Frontier

# The names under which DGL keeps ids of nodes and edges.
NID = "_ID"
EID = "_ID"


class Block(Int64Ids, batches.Block):
    """A strata.Block that also answers to DGL's names. srcdata, dstdata and edata are dictionaries with the ids in NID and EID."""

    @cached_property
    def srcdata(self) -> dict[str, Tensor]:
        """Of the sources, [num_src, ...]: their ids as NID, and what a program adds."""
        return {NID: self.src_nodes}

    @cached_property
    def dstdata(self) -> dict[str, Tensor]:
        """Of the destinations, [num_dst, ...]: their ids as NID, and what a program adds."""
        return {NID: self.src_nodes[: self.num_dst]}

    @cached_property
    def edata(self) -> dict[str, Tensor]:
        """Of the edges, [E, ...]: their ids as EID, where the graph has them, and what a program adds."""
        return {} if self.edge_ids is None else {EID: self.edge_ids}

    @property
    def device(self) -> torch.device:
        """Where its tensors lie."""
        return self.src_nodes.device

    @property
    def is_block(self) -> bool:
        """True, as of DGL's blocks."""
        return True

    def num_src_nodes(self) -> builtins.int:
        """Sources, of which the destinations are the first."""
        return self.num_src

    def num_dst_nodes(self) -> builtins.int:
        """Destinations."""
        return self.num_dst

    def num_edges(self) -> builtins.int:
        """Edges, from sources to destinations."""
        return self.indices.numel()

    def num_nodes(self) -> builtins.int:
        """Sources and destinations together, as of DGL's blocks."""
        return self.num_src + self.num_dst

    number_of_src_nodes, number_of_dst_nodes, number_of_edges = num_src_nodes, num_dst_nodes, num_edges
    number_of_nodes = num_nodes

    def srcnodes(self) -> Tensor:
        """int64 [num_src]: local ids of the sources, 0, 1 ..."""
        return torch.arange(self.num_src, device=self.device)

    def dstnodes(self) -> Tensor:
        """int64 [num_dst]: local ids of the destinations, 0, 1 ..."""
        return torch.arange(self.num_dst, device=self.device)

    def edges(self) -> tuple[Tensor, Tensor]:
        """Two of int64 [E]: local ids of sources and destinations."""
        return self.edge_index[0], self.edge_index[1]

    def in_degrees(self, v: Any = None) -> Tensor:
        """int64 [n]: how many edges these destinations have, by default all of them."""
        degrees = self.indptr.diff()
        return degrees if v is None else degrees[torch.as_tensor(v, device=self.device)]

    def out_degrees(self, u: Any = None) -> Tensor:
        """int64 [n]: how many edges these sources have, by default all of them."""
        degrees = torch.bincount(self.indices, minlength=self.num_src)
        return degrees if u is None else degrees[torch.as_tensor(u, device=self.device)]

    @contextlib.contextmanager
    def local_scope(self) -> Iterator[None]:
        """What is put into srcdata, dstdata and edata within it is gone after it."""
        with restored(self.srcdata, self.dstdata, self.edata):
            yield

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("ndata", "nodes"):
                where = "a block has those of its sources and of its destinations, such as srcdata and dstnodes()"
            else:
                where = "block.to_dgl() is a block of DGL's own, and dgl.nn's layers take it"
            raise AttributeError(f"strata.dgl.Block has no {name!r}: {where}", name=name, obj=self)

    def to(self, device: Any) -> Block:
        """This block where it lies there already, else a copy."""
        if isinstance(device, int):
            device = torch.device("cuda", device)
        if torch.empty(0, device=device).device == self.device:
            return self
        fields: Any = (value.to(device) if isinstance(value, Tensor) else value for value in self)
        moved = Block(*fields)
        for name in ("srcdata", "dstdata", "edata"):
            getattr(moved, name).update({key: value.to(device) for key, value in getattr(self, name).items()})
        return moved

    def to_dgl(self) -> Any:
        """A block of DGL's on the same device, with all of srcdata, dstdata and edata."""
        made = super().to_dgl()
        for frame, data in ((made.srcdata, self.srcdata), (made.dstdata, self.dstdata), (made.edata, self.edata)):
            frame.update(data)
        return made


def to_block(frontier: Frontier, dst_nodes: Any = None, include_dst_in_src: bool = True) -> Block:
    """The block of a frontier's edges. Sources are `dst_nodes`, then the others in ascending order of their ids.

    Args:
        frontier: of sample_neighbors(), in_subgraph(), or Frontier's constructor.
        dst_nodes: distinct ids, with all destinations of the frontier among them; by default the nodes that were asked for.
        include_dst_in_src: only True.
    """
    if not hasattr(frontier, "dst_nodes"):
        raise TypeError(f"to_block() was given {frontier!r}; give a frontier, such as that of sample_neighbors()")
    if not include_dst_in_src:
        raise InputError("include_dst_in_src=False is not possible", "Strata's blocks begin with their destinations.")
    if dst_nodes is None:
        dst_nodes = frontier.dst_nodes
    if dst_nodes is frontier.dst_nodes and frontier.block is not None:
        return frontier.block
    src, dst = frontier.edges()
    dst_nodes = torch.as_tensor(dst_nodes, dtype=torch.int64, device=src.device)
    if torch.unique(dst_nodes).numel() != dst_nodes.numel():
        raise InputError("to_block() was given a destination twice", "Give each node once.")
    order = torch.argsort(_places_of(dst, dst_nodes, "the frontier has edges to node {}, which is not among dst_nodes"), stable=True)
    src, dst = src[order], dst[order]
    found = torch.unique(src)
    src_nodes = torch.cat([dst_nodes, found[~torch.isin(found, dst_nodes)]])
    indices = _places_of(src, src_nodes, "node {} is not among the sources")
    local_dst = _places_of(dst, dst_nodes, "node {} is not among the destinations")
    indptr = torch.zeros(dst_nodes.numel() + 1, dtype=torch.int64, device=src.device)
    torch.cumsum(torch.bincount(local_dst, minlength=dst_nodes.numel()), 0, out=indptr[1:])
    return Block(
        edge_index=torch.stack([indices, local_dst]),
        indptr=indptr,
        indices=indices.int(),
        edge_ids=None if frontier.edge_ids is None else frontier.edge_ids[order],
        src_nodes=src_nodes,
        num_src=src_nodes.numel(),
        num_dst=dst_nodes.numel(),
    )


def _places_of(ids: Tensor, nodes: Tensor, message: str) -> Tensor:
    """Where each id stands among distinct nodes."""
    ascending, order = nodes.sort()
    if ids.numel() == 0:
        return torch.empty_like(ids)
    if nodes.numel() > 0:
        places = torch.searchsorted(ascending, ids).clamp(max=nodes.numel() - 1)
        wrong = (ascending[places] != ids).nonzero()
    if nodes.numel() == 0 or wrong.numel() > 0:
        first = ids[0] if nodes.numel() == 0 else ids[wrong[0, 0]]
        raise InputError(message.format(int(first)), "Give all destinations of the frontier.")
    return order[places]
