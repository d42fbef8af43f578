# SPDX-License-Identifier: Apache-2.0
"""Graphs of several types by DGL's names."""

from __future__ import annotations

import builtins
import contextlib
import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch

from strata._attributes import HeldRows
from strata._types import EdgeType, OneType
from strata.dgl.graphs import WholeGraph, restored
from strata.dgl.typed_blocks import Frames, TypedRows, TypedView
from strata.errors import InputError
from strata.graph import Graph, require_graph


class HeteroGraph(WholeGraph):
    """A graph of Strata of several types that answers to the names of DGL's heterographs.

        graph = strata.dgl.HeteroGraph(strata.from_pyg(data))
        graph.num_nodes("paper"), graph.canonical_etypes, graph.nodes["paper"].data["y"]

    strata.dgl.DataLoader takes it wherever it takes a strata.Graph of several types. Arrays are those that the graph was made with, where
    they lie; of parts, masks, and labels on one machine.
    """

    def __init__(self, graph: Graph) -> None:
        require_graph(graph, several_types=True)
        if graph._types is None:
            raise InputError("the graph has one type of nodes", "Take strata.dgl.DGLGraph(graph).")
        self.graph, self._types = graph, graph._types

    @cached_property
    def _nodes(self) -> Frames:
        frames = _frames_of(self._types.nodes)
        if self._types.x is not None:
            for kind, (first, end) in zip(self.ntypes, itertools.pairwise(self._types.node_offsets)):
                frames[kind]["x"] = self._types.x[first:end]
        return frames

    @cached_property
    def _edges(self) -> Frames:
        return _frames_of(self._types.edges)

    def _node_type(self, kind: Any) -> str:
        if kind is None and len(self.ntypes) == 1:
            return self.ntypes[0]
        if kind not in self._types.nodes:
            raise InputError(f"the graph has no type of nodes {kind!r}", f"Choose one of {self.ntypes}.")
        return str(kind)

    @property
    def ntypes(self) -> list[str]:
        """The types of nodes."""
        return self._types.node_types

    srctypes = dsttypes = ntypes

    @property
    def canonical_etypes(self) -> list[EdgeType]:
        """The relations: (source type, name, destination type)."""
        return self._types.edge_types

    @property
    def etypes(self) -> list[str]:
        """The names of the relations."""
        return [kind[1] for kind in self.canonical_etypes]

    def to_canonical_etype(self, etype: Any) -> EdgeType:
        """The relation of this name."""
        return self._types.edge_type(etype)

    def num_nodes(self, ntype: Any = None) -> builtins.int:
        """Nodes of a type, or of all."""
        return self.graph.num_nodes if ntype is None else self._types.nodes[self._node_type(ntype)].size

    def num_edges(self, etype: Any = None) -> builtins.int:
        """Edges of a relation, or of all."""
        return self.graph.num_edges if etype is None else self._types.edges[self.to_canonical_etype(etype)].size

    num_src_nodes = num_dst_nodes = num_nodes
    number_of_nodes, number_of_edges = num_nodes, num_edges

    @property
    def nodes(self) -> TypedView:
        """nodes("paper") is int64 [n], 0, 1 ...; nodes["paper"].data has arrays by name."""
        return TypedView(self._nodes, self._node_type, lambda ntype=None: torch.arange(self.num_nodes(self._node_type(ntype))))

    @property
    def edges(self) -> TypedView:
        """edges["writes"].data has arrays by name; edges(etype="writes") are ids, int64 [E], 0, 1 ..., with form="eid" only."""

        def ids(etype: Any = None, form: str = "uv") -> torch.Tensor:
            if form != "eid":
                raise InputError(
                    f"edges(form={form!r}) is not possible", "The ends of edges are in what the graph was made of."
                )
            return torch.arange(self.num_edges(self.to_canonical_etype(etype)))

        return TypedView(self._edges, self.to_canonical_etype, ids)

    @cached_property
    def ndata(self) -> TypedRows:
        """{type: array} for each name."""
        return TypedRows(self._nodes, self._node_type)

    @cached_property
    def edata(self) -> TypedRows:
        """{relation: array} for each name."""
        return TypedRows(self._edges, self.to_canonical_etype)

    is_homogeneous, is_block = False, False

    @contextlib.contextmanager
    def local_scope(self) -> Iterator[None]:
        """What is put into ndata and edata within it is gone after it."""
        with restored(*self._nodes.values(), *self._edges.values()):
            yield

    def __repr__(self) -> str:
        return f"strata.dgl.HeteroGraph({self.graph!r})"


def _frames_of(types: dict[Any, OneType]) -> Frames:
    def array(values: Any) -> Any:
        return values.values if isinstance(values, HeldRows) else values

    return {kind: {name: array(values) for name, values in one.attributes.items()} for kind, one in types.items()}
