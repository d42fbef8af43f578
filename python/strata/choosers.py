# SPDX-License-Identifier: Apache-2.0
"""Samplers written in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from strata._arrays import ids_array, to_numpy
from strata.errors import InputError

if TYPE_CHECKING:
    import numpy

    from strata.graph import Graph


class ChoiceQuery(NamedTuple):
    """The nodes that get neighbors at one hop of a batch, and the key of the choice."""

    graph: Graph
    nodes: numpy.ndarray  # int64 [n] ids; on several machines another rank's may be among them, and twice
    fanout: int  # -1: all neighbors
    hop: int  # counted from the seeds
    seed: int
    epoch: int
    step: int

    def numbers(self, counts: Any) -> numpy.ndarray:
        """float64 [sum of counts] in [0, 1): counts[i] of them for nodes[i]. A node gets the same ones for every asking
        rank, and others in every step and hop."""
        core = self.graph._core
        key = {"seed": self.seed, "epoch": self.epoch, "step": self.step, "hop": self.hop}
        numbers: numpy.ndarray = to_numpy(core.keyed_numbers(self.nodes, ids_array(counts, "counts"), **key))
        return numbers


class NeighborChooser:
    """Decides which neighbors nodes get; derive from it for a sampler of your own, and give one to a loader as `sampler`.

        class First(strata.NeighborChooser):
            def choose(self, query):
                lists = query.graph.in_edges(query.nodes)
                counts = numpy.minimum(lists.counts, query.fanout)
                first = numpy.cumsum(lists.counts) - lists.counts
                edges = numpy.repeat(first - numpy.cumsum(counts) + counts, counts) + numpy.arange(counts.sum())
                return counts, lists.sources[edges], lists.edge_ids[edges]

        loader = strata.NodeLoader(graph, "train", fanouts=[10, 5], batch_size=1024, sampler=First(graph))

    The same batches on every number of ranks, machines and parts need choices that depend only on the query's seed, epoch,
    step and hop and on nodes' original ids: `query.numbers()` has such random numbers. choose() runs on the CPU, on a thread of
    the loader and one call at a time; on a GPU the finished blocks are copied. What it raises ends the loader's epoch.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def choose(self, query: ChoiceQuery) -> Any:
        """Returns (counts, neighbors) or (counts, neighbors, edge_ids): integers, NumPy's or torch's on the CPU.

        counts is [n]; neighbors has the ids of those of nodes[0], then those of nodes[1] and so on; edge_ids has the edge of
        each neighbor, which a graph with edge ids needs.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define choose(query)")

    def check(self, graph: Graph, replace: bool, layer_dependent: bool) -> None:
        """Refuses what a loader may say beside a chooser."""
        if not hasattr(self, "graph"):
            raise InputError(f"{type(self).__name__} has no graph", "Call super().__init__(graph) in its __init__().")
        if graph is not self.graph:
            raise InputError("the chooser was made for another graph than the loader", "Make one for each graph.")
        for name, value in (("replace", replace), ("layer_dependent", layer_dependent)):
            if value:
                raise InputError(f"{name}=True has no effect with a NeighborChooser", "Its choose() decides that.")

    def _choose(self, nodes: Any, fanout: int, hop: int, seed: int, epoch: int, step: int) -> tuple[Any, Any, Any]:
        """Called by C++."""
        chosen = self.choose(ChoiceQuery(self.graph, to_numpy(nodes), fanout, hop, seed, epoch, step))
        if not isinstance(chosen, tuple) or len(chosen) not in (2, 3):
            raise InputError(
                f"choose() of {type(self).__name__} returned {type(chosen).__name__}",
                "Return (counts, neighbors) or (counts, neighbors, edge_ids).",
            )
        names = ("counts", "neighbors", "edge_ids")
        arrays = [None if value is None else ids_array(value, name).reshape(-1) for name, value in zip(names, chosen)]
        return arrays[0], arrays[1], arrays[2] if len(arrays) == 3 else None
