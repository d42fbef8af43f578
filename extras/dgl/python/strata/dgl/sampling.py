# SPDX-License-Identifier: Apache-2.0
"""Frontiers: the edges of one hop."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from strata import _arguments, _core
from strata._arrays import current_stream, ids_array, to_torch
from strata._loader_options import check_weights
from strata.batches import block_of
from strata.dgl.blocks import EID, Block
from strata.dgl.graphs import DGLGraph, graph_of
from strata.errors import InputError
from strata.graph import Graph


def _ids(values: Any) -> Tensor:
    """int64, where it lies."""
    ids = torch.as_tensor(values)
    if ids.numel() > 0 and (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool):
        raise InputError(f"a frontier of {ids.dtype}", "Give ids as integers.")
    return ids.long()


class Frontier:
    """The edges along which messages flow at one hop, between nodes of a graph.

    Attributes:
        dst_nodes: the nodes that were asked for.
        edge_ids: int64 [E]; None if the graph was loaded without them.
        block: the same edges as a block of dst_nodes, where they were sampled so.
    """

    def __init__(self, edges: tuple[Any, Any], edge_ids: Any = None, dst_nodes: Any = None) -> None:
        """A frontier of one's own edges: ids of sources and of destinations."""
        src, dst = (_ids(ends) for ends in edges)
        if src.shape != dst.shape:
            raise InputError(f"a frontier has {len(src)} sources and {len(dst)} destinations", "Give as many of both.")
        self._edges: tuple[Tensor, Tensor] | None = (src, dst)
        self.edge_ids: Tensor | None = None if edge_ids is None else _ids(edge_ids)
        self.dst_nodes: Any = torch.unique(dst) if dst_nodes is None else dst_nodes
        self.block: Block | None = None

    @classmethod
    def of_block(cls, block: Block, dst_nodes: Any) -> Frontier:
        """The edges of a block, whose destinations are `dst_nodes`."""
        made = cls.__new__(cls)
        made._edges, made.edge_ids, made.dst_nodes, made.block = None, block.edge_ids, dst_nodes, block
        return made

    def edges(self) -> tuple[Tensor, Tensor]:
        """Two of int64 [E]: ids of sources and destinations in the graph."""
        if self._edges is None:
            assert self.block is not None
            src, dst = self.block.edges()
            self._edges = (self.block.src_nodes[src], self.block.src_nodes[dst])
        return self._edges

    def num_edges(self) -> int:
        """How many edges there are."""
        return self.edges()[0].numel() if self.block is None else self.block.num_edges()

    number_of_edges = num_edges

    @property
    def edata(self) -> dict[str, Tensor]:
        """Ids of the edges, int64 [E], as EID; empty if the graph was loaded without them."""
        return {} if self.edge_ids is None else {EID: self.edge_ids}

    def edge_subgraph(self, edges: Any) -> Frontier:
        """The frontier of some of the edges only: positions, or a mask."""
        edges = torch.as_tensor(edges, device=self.edges()[0].device)
        src, dst = self.edges()
        return Frontier((src[edges], dst[edges]), None if self.edge_ids is None else self.edge_ids[edges], self.dst_nodes)

    def remove_edges(self, edges: Any) -> Frontier:
        """The frontier without the edges at these positions. Unlike DGL's, it leaves this one as it is."""
        kept = torch.ones(self.num_edges(), dtype=torch.bool, device=self.edges()[0].device)
        kept[torch.as_tensor(edges, device=kept.device)] = False
        return self.edge_subgraph(kept)


@dataclasses.dataclass
class _Batch:
    """What keys the hops of a batch that a loader samples on this thread."""

    graph: Graph
    seed: int
    epoch: int
    step: int
    hops_with_transposes: int  # whose blocks bring what gradients of strata.nn's layers need
    hop: int = 0  # the next one


class _Samplers:
    """Of a graph, for all threads, which C++ lets take turns; and how many calls were made outside of loaders."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str, bool, bool], _core.NeighborSampler] = {}
        self._calls = itertools.count()

    def of(self, graph: Graph, kind: tuple[int, str, bool, bool]) -> _core.NeighborSampler:
        if kind not in self._made:
            fanout, method, replace, transposes = kind
            made = _core.NeighborSampler.make(
                graph._core, fanouts=[fanout], sampler=method, replace=replace, layer_dependent=False, transposes=transposes
            )
            self._made.setdefault(kind, made)
        return self._made[kind]

    def next_key(self) -> dict[str, int]:
        """Of a call outside of a loader, whose epoch no loader has."""
        step = next(self._calls) % (1 << 32)
        return {"seed": torch.initial_seed() % (1 << 64), "epoch": 0xFFFFFFFF, "step": step, "hop": 0}


_samplers: weakref.WeakKeyDictionary[Graph, _Samplers] = weakref.WeakKeyDictionary()


class _Sampled(threading.local):
    """The batch that this thread samples; None: outside of a loader."""

    batch: _Batch | None = None


_sampled = _Sampled()


@contextlib.contextmanager
def keyed(graph: Graph, seed: int, epoch: int, step: int, hops_with_transposes: int) -> Iterator[None]:
    """While a batch is sampled: call h of sample_neighbors() draws what hop h of a NodeLoader's batch of this key draws."""
    before = _sampled.batch
    _sampled.batch = _Batch(graph, seed, epoch, step, hops_with_transposes)
    try:
        yield
    finally:
        _sampled.batch = before


def sample_neighbors(
    g: Graph | DGLGraph,
    nodes: Any,
    fanout: int | None,
    edge_dir: str = "in",
    prob: str | None = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    exclude_edges: Any = None,
    output_device: Any = None,
) -> Frontier:
    """In-edges of some nodes: as many as `fanout` for each, or all (-1).

    In a BlockSampler's sample_frontier() choices are keyed by the loader's seed, epoch and step, the hop and the node, so that
    they are the same on any number of ranks; elsewhere by torch's seed and the number of calls so far. Any thread may call it.

    Args:
        g: a graph of strata.load() and its like, whose structure lies on this machine.
        nodes: distinct ids.
        prob: any name: by the edges' weights, with which the graph was loaded.
        replace: whether an edge may be chosen several times.
        copy_ndata, copy_edata, output_device: without effect.
    """
    g = graph_of(g)
    if edge_dir != "in":
        raise InputError(f"edge_dir={edge_dir!r} is not possible", "Strata keeps in-edges: load the reversed graph.")
    if exclude_edges is not None:
        raise InputError("exclude_edges is not possible", "Leave edges out of the frontier: frontier.remove_edges(positions).")
    if prob is not None:
        check_weights(g, prob)
    samplers = _samplers.setdefault(g, _Samplers())
    of = _sampled.batch if _sampled.batch is not None and _sampled.batch.graph is g else None
    transposes = of is not None and of.hop < of.hops_with_transposes
    sampler = samplers.of(g, (check_fanout(fanout), "uniform" if prob is None else "weighted", replace, transposes))
    if of is None:
        key = samplers.next_key()
    else:
        key = {"seed": of.seed, "epoch": of.epoch, "step": of.step, "hop": of.hop}
        of.hop += 1
    batch = sampler.sample(ids_array(nodes, "nodes").reshape(-1), **key, stream=current_stream())
    return Frontier.of_block(block_of(batch.blocks[0], to_torch(batch.nodes), Block), nodes)


def in_subgraph(graph: Graph | DGLGraph, nodes: Any, **others: Any) -> Frontier:
    """All in-edges of some nodes."""
    for name, value in others.items():
        if name not in ("relabel_nodes", "store_ids", "output_device"):
            raise TypeError(f"in_subgraph() got an unexpected keyword argument {name!r}")
        if name == "relabel_nodes" and value:
            raise InputError("relabel_nodes=True is not possible", "to_block(frontier) numbers the nodes anew.")
    return sample_neighbors(graph, nodes, -1)


def check_fanout(fanout: Any) -> int:
    """A number of neighbors, -1 for all."""
    if fanout is None:
        return -1  # as DGL had it until 0.6
    if isinstance(fanout, dict):
        raise InputError(
            "a fanout per type of edges is not possible here", "Give a number; NeighborSampler takes fanouts by type."
        )
    return _arguments.fanouts([fanout], "fanouts")[0]
