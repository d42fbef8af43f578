# SPDX-License-Identifier: Apache-2.0
"""Graphs by DGL's names."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from strata._arrays import list_of_ids
from strata._process import process
from strata.errors import InputError
from strata.graph import Graph, require_graph

_MASKS = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}


Self = TypeVar("Self")


class Int64Ids:
    """What graphs and blocks answer to DGL's questions about ids and formats, of which there is one."""

    @property
    def idtype(self) -> torch.dtype:
        """int64, of all ids."""
        return torch.int64

    def int(self: Self) -> Self:
        """The same, whose ids stay int64."""
        return self

    long = int

    def create_formats_(self) -> None:
        """Does nothing: there is one format."""


class WholeGraph(Int64Ids):
    """What a graph of one type and one of several answer alike."""

    @property
    def device(self) -> torch.device:
        """Where samplers and loaders give their blocks."""
        return torch.device(process().device)

    def to(self: Self, device: Any) -> Self:
        """This graph: its blocks lie on this process's device, and another device is refused."""
        check_device(device)
        return self

    pin_memory_ = unpin_memory_ = Int64Ids.create_formats_


class DGLGraph(WholeGraph):
    """A graph of Strata that answers to the names of DGL's graphs, where num_nodes() and num_edges() are calls.

        graph = strata.dgl.DGLGraph(strata.load("parts"))
        labels = graph.ndata["label"][seeds]

    strata.dgl takes it wherever it takes a strata.Graph, and gives it to samplers of one's own. Other names are those of the
    strata.Graph: features, labels, close() ...
    """

    def __init__(self, graph: Graph) -> None:
        require_graph(graph)
        self.graph = graph

    @cached_property
    def ndata(self) -> dict[str, Any]:
        """A dictionary of "feat" and "label" (graph.features and graph.labels, to be indexed by ids), bool masks, and what is added.

        The masks are on the CPU: "train_mask", "val_mask", "test_mask". The first use is collective.
        """
        found: dict[str, Any] = {}
        if self.graph.num_features > 0:
            found["feat"] = self.graph.features
        if self.graph.num_classes > 0:
            found["label"] = self.graph.labels
        for name, split in _MASKS.items():
            found[name] = torch.zeros(self.num_nodes(), dtype=torch.bool).index_fill_(0, self.graph.nodes(split), True)
        return found

    @cached_property
    def edata(self) -> dict[str, Any]:
        """A dictionary of what is added: edges have no features."""
        return {}

    is_homogeneous, is_block = True, False

    def num_nodes(self) -> builtins.int:
        """Nodes of the whole graph."""
        return self.graph.num_nodes

    def num_edges(self) -> builtins.int:
        """Edges of the whole graph."""
        return self.graph.num_edges

    number_of_nodes, number_of_edges = num_nodes, num_edges

    def nodes(self) -> Tensor:
        """int64 [num_nodes]: 0, 1 ..."""
        return torch.arange(self.num_nodes())

    def in_degrees(self, v: Any = None) -> Tensor:
        """int64 [n]: how many in-edges these nodes have, by default all; of nodes whose neighbor lists lie on this machine."""
        nodes = self.nodes() if v is None else torch.as_tensor(v)
        return torch.from_numpy(self.graph.in_edges(nodes.reshape(-1)).counts).view(nodes.shape)

    def in_edges(self, v: Any, form: str = "uv") -> Any:
        """In-edges of nodes whose neighbor lists lie on this machine: "uv" (sources, destinations), "eid" (ids) or "all" three."""
        nodes = torch.from_numpy(list_of_ids(v, "nodes"))
        found = self.graph.in_edges(nodes)
        ends = torch.from_numpy(found.sources), nodes.repeat_interleave(torch.from_numpy(found.counts))
        if form == "uv":
            return ends
        if form not in ("eid", "all"):
            raise InputError(f"form={form!r} is not possible", 'Choose "uv", "eid" or "all".')
        if found.edge_ids is None:
            raise InputError("the graph was loaded without ids of edges", 'Load it with edge_ids=True, or take form="uv".')
        ids = torch.from_numpy(found.edge_ids)
        return ids if form == "eid" else (*ends, ids)

    def edges(self) -> tuple[Tensor, Tensor]:
        """Sources and destinations of all edges, by destination; of a graph that lies on this machine."""
        src, dst = self.in_edges(self.nodes())
        return src, dst

    @contextlib.contextmanager
    def local_scope(self) -> Iterator[None]:
        """What is put into ndata and edata within it is gone after it."""
        with restored(self.ndata, self.edata):
            yield

    def __repr__(self) -> str:
        return f"strata.dgl.DGLGraph({self.graph!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name != "graph" and not name.startswith("_") and hasattr(Graph, name):
                return getattr(self.graph, name)
            raise AttributeError(
                f"strata.dgl.DGLGraph has no {name!r}: functions over whole graphs are DGL's, before strata.from_dgl(graph)",
                name=name,
                obj=self,
            )


def graph_of(graph: Any, several_types: bool = False) -> Graph:
    """The graph of Strata that a DGLGraph stands for, or that it is; TypeError for anything else."""
    found = graph.graph if isinstance(graph, DGLGraph) else graph
    require_graph(found, several_types)
    return found


@contextlib.contextmanager
def restored(*frames: dict[str, Any]) -> Iterator[None]:
    """Puts dictionaries back as they are now."""
    before = [dict(frame) for frame in frames]
    try:
        yield
    finally:
        for frame, kept in zip(frames, before):
            frame.clear()
            frame.update(kept)


def check_device(device: Any) -> None:
    """InputError for another device than this process's; None is any."""
    if device is None:
        return
    wanted = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    have = torch.device(process().device)
    if wanted.type != have.type or (wanted.type == "cuda" and wanted.index not in (None, have.index)):
        raise InputError(
            f"device={str(wanted)!r} is not this process's, {str(have)!r}",
            "Leave it out. Rows of CPU tensors by ids on a GPU: strata.unified(tensor)[ids]. Blocks on the CPU: "
            'strata.init(device="cpu") before the first graph.',
        )
