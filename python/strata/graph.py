# SPDX-License-Identifier: Apache-2.0
"""Graphs that the ranks of a run hold together."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from strata import _arguments, _core
from strata._arrays import current_stream, host_array, ids_array, list_of_ids, to_numpy, to_torch
from strata._indices import rows_of
from strata._process import not_for_other_processes, process, refuse_forks, register, together
from strata.errors import InputError

if TYPE_CHECKING:
    import types

    import numpy
    import torch

_numbers = itertools.count()

# What scripts of PyG and DGL ask graphs for, and where a graph of Strata has it.
_ELSEWHERE = {
    "x": "graph.features[ids] has rows, and batches have x",
    "y": "graph.labels[ids] has labels, and batches have y",
    "edge_index": "graph.in_edges(ids) has neighbor lists, and batches have edge_index",
    "edge_attr": "graph.in_edges(ids).edge_ids are rows of a tensor of your own, and so is batch.e_id",
    "edge_weight": "graph.in_edges(ids).weights has them",
    "train_mask": 'graph.nodes("train") has the ids, and loaders take input_nodes="train"',
    "val_mask": 'graph.nodes("valid") has the ids, and loaders take input_nodes="valid"',
    "test_mask": 'graph.nodes("test") has the ids, and loaders take input_nodes="test"',
    "num_node_features": "graph.num_features has it",
}
_NAMES_OF_DGL = (
    "ndata edata srcdata dstdata number_of_nodes number_of_edges in_degrees edges int long to device idtype local_scope formats "
    "create_formats_ pin_memory_ is_homogeneous is_block"
).split()


class InEdges(NamedTuple):
    """In-edges of some nodes, packed in the order of the nodes; NumPy arrays."""

    counts: numpy.ndarray  # int64 [nodes]
    sources: numpy.ndarray  # int64 [sum of counts]
    edge_ids: numpy.ndarray | None  # int64, one per source; None if the graph was loaded without them
    weights: numpy.ndarray | None  # float32, the same


class Features:
    """The feature rows of a graph, wherever they lie; `features[ids]` gathers some."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __repr__(self) -> str:
        return f"strata.graph.Features(shape={self.shape})" if self._graph._core.is_open else "strata.graph.Features(closed)"

    @property
    def shape(self) -> tuple[int, int]:
        """(num_nodes, num_features), of the whole graph. Not collective."""
        return self._graph.num_nodes, self._graph.num_features

    def __len__(self) -> int:
        return self._graph.num_nodes

    def __getitem__(self, ids: Any) -> torch.Tensor:
        """float32 [*ids.shape, num_features] on this process's device; ids int64 on it or on the CPU.

        Also of a mask, a slice, a list, an array of NumPy or another library (DLPack), or one integer, which gives one row.
        Collective if the run has several machines. IndexError names the first id that is no node's.
        """
        import torch

        asked = rows_of(ids, len(self), "nodes")
        rows = torch.empty((asked.ids.numel(), self._graph.num_features), device=process().device)
        self._graph._core.gather_features(cast(Any, asked.ids.long()), cast(Any, rows), current_stream())
        return rows.view(*asked.shape, rows.shape[1])


class Labels:
    """The labels of a graph's nodes; `labels[ids]` gives some."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return self._graph.num_nodes

    def __getitem__(self, ids: Any) -> torch.Tensor:
        """int64 [*ids.shape] on this process's device, -1 where there is none; of sets of classes float32 [*ids.shape, classes], nan.

        Of ids as features takes them. On one machine; on several, loaders bring the labels of their seeds.
        """
        asked = rows_of(ids, len(self), "nodes")
        labels = to_torch(self._graph._core.labels(cast(Any, asked.ids.long().cpu())))
        return labels.to(process().device).view((*asked.shape, *labels.shape[1:]))


class Graph:
    """A graph that all ranks of the run hold together; made by load() and from_tensors().

    Ids of nodes are the graph's own numbers: of a graph from tensors, positions in them; of parts, the numbers that
    partitioning gave, of which `batch.original_ids` tells the input's.
    """

    def __init__(self, core: _core.Graph) -> None:
        self._core = core
        self._again: functools.partial[Graph] | None = None  # makes it in another process; None: from what it holds
        self._number = next(_numbers)
        register(self)

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        # After an error other ranks may never come; whoever ends the run frees what is left.
        if kind is None or process().size == 1:
            self.close()

    def close(self) -> None:
        """Closes the graph's loaders and gives the memory back. Collective. Batches that are in use stay."""
        refuse_forks()
        if "_core" in vars(self):
            self._core.close()

    def __reduce__(self) -> Any:
        """Another process makes the graph again, when it first uses it: from its source, or from tensors in shared memory."""
        if self._again is None:
            self._again = functools.partial(from_tensors, **self._arguments())
        return _to_be_made, (self._again,)

    def _arguments(self) -> dict[str, Any]:
        """Those of from_tensors() that make this graph."""
        import torch

        if process().size > 1:
            raise not_for_other_processes("a graph that several ranks made of tensors")
        nodes = torch.arange(self.num_nodes)
        found = self.in_edges(nodes)
        edge_index = torch.stack([torch.from_numpy(found.sources), nodes.repeat_interleave(torch.from_numpy(found.counts))])
        weights = None if found.weights is None else torch.from_numpy(found.weights)
        if found.edge_ids is not None:
            order = torch.from_numpy(found.edge_ids).argsort()
            edge_index, weights = edge_index[:, order], None if weights is None else weights[order]
        return {
            "edge_index": edge_index,
            "x": self.features[:].cpu() if self.num_features else None,
            "y": self.labels[:].cpu() if self._core.has_labels else None,
            "edge_weight": weights,
            "num_nodes": self.num_nodes,
        } | {split: self.nodes(split) for split in _SPLITS}

    def __copy__(self) -> Graph:
        return self  # nothing of it changes; scripts of PyG give each loader a copy of the Data

    def __deepcopy__(self, memo: Any) -> Graph:
        return self

    if not TYPE_CHECKING:  # so that mypy finds what is missing

        def __getattr__(self, name: str) -> Any:
            mine = vars(self)
            if name.startswith("_") and not name.startswith("__") and "_again" in mine and "_core" not in mine:  # of _to_be_made()
                mine.update(vars(mine["_again"]()) | mine)
                register(self)
                return getattr(self, name)
            where = "strata.dgl.DGLGraph(graph) has DGL's names" if name in _NAMES_OF_DGL else _ELSEWHERE.get(name)
            raise AttributeError(f"strata.Graph has no {name!r}" + (f": {where}" if where else ""), name=name, obj=self)

    @property
    def name(self) -> str:
        """Of the folder of parts, the dataset or the generator. Not collective, like all of these properties."""
        return self._core.name

    @property
    def num_nodes(self) -> int:
        """Of the whole graph, on all machines together; ids are below it."""
        return self._core.num_nodes

    @property
    def num_edges(self) -> int:
        """Of the whole graph, each direction counted."""
        return self._core.num_edges

    @property
    def num_features(self) -> int:
        """Columns of the features; 0 if there are none."""
        return self._core.num_features

    @property
    def num_classes(self) -> int:
        """Of the labels; 0 if there are none."""
        return self._core.num_classes

    @property
    def features(self) -> Features:
        """float32 [num_nodes, num_features], wherever they lie: features[ids] are rows on this process's device.

        Reading rows is collective if the run has several machines.
        """
        return Features(self)

    @property
    def labels(self) -> Labels:
        """int64 [num_nodes], or of sets of classes float32 [num_nodes, num_classes]: labels[ids] lie on this process's device.

        Reading them is not collective, and possible on one machine only.
        """
        return Labels(self)

    def in_edges(self, nodes: Any) -> InEdges:
        """The in-edges of nodes whose neighbor lists lie on this machine, in host memory; others are given none.

        Not collective, and for any thread: a NeighborChooser's, for instance.
        """
        counts, sources, edge_ids, weights = self._core.in_edges(list_of_ids(nodes, "nodes"))
        return InEdges(
            counts=to_numpy(counts),
            sources=to_numpy(sources),
            edge_ids=None if edge_ids is None else to_numpy(edge_ids),
            weights=None if weights is None else to_numpy(weights),
        )

    def nodes(self, split: str) -> torch.Tensor:
        """int64 [n] on the CPU: ids of "train", "valid" or "test", of all machines. The first call for a split is collective."""
        return to_torch(self._core.nodes_of(_arguments.word(split, "split"))).clone()

    def original_ids(self, ids: Any) -> torch.Tensor:
        """int64 [n]: the numbers that these nodes had in the input; on the CPU. Not collective."""
        return to_torch(self._core.original_ids(list_of_ids(ids, "ids")))

    def ids(self, original_ids: Any) -> torch.Tensor:
        """int64 [n]: the graph's numbers of nodes that the input numbered so; on the CPU. Not collective."""
        return to_torch(self._core.global_ids(list_of_ids(original_ids, "original_ids")))

    def plan(self) -> list[dict[str, Any]]:
        """What lies where: tensor, stratum ("replicated", "striped", "host"), rows, bytes, expected share of reads. Not collective."""
        return self._core.plan()

    def __repr__(self) -> str:
        if "_core" not in vars(self):
            return "strata.Graph(to be made in this process)"
        if not self._core.is_open:
            return "strata.Graph(closed)"
        return f"strata.Graph({self.name!r}, nodes={self.num_nodes}, edges={self.num_edges}, features={self.num_features})"


def _to_be_made(again: functools.partial[Graph]) -> Graph:
    """A graph that its first use makes, once the process has been told its rank and its device. That use is collective."""
    graph = Graph.__new__(Graph)
    graph._again = again
    return graph


def _options(
    edge_ids: bool | None,
    weights: bool,
    gpu_memory: int | None,
    replicate: str,
    halo_cache: int,
    fanouts: Sequence[int],
    batch_size: int,
) -> _core.GraphOptions:
    return _core.GraphOptions(
        edge_ids=None if edge_ids is None else _arguments.flag(edge_ids, "edge_ids"),
        edge_weights=_arguments.flag(weights, "weights"),
        gpu_bytes=-1 if gpu_memory is None else _arguments.integer(gpu_memory, "gpu_memory", 0),
        replicate=_arguments.word(replicate, "replicate"),
        halo_bytes=_arguments.integer(halo_cache, "halo_cache", 0),
        fanouts=_arguments.fanouts(fanouts, "fanouts"),
        batch_size=_arguments.integer(batch_size, "batch_size", 1),
    )


def require_graph(graph: Any) -> None:
    """TypeError for anything else than a Graph, such as one of another library; InputError in a process that was forked."""
    refuse_forks()
    if not isinstance(graph, Graph):
        raise TypeError(f"the graph is {graph!r}; give one of strata.load(), from_tensors(), from_pyg(data), from_dgl(graph) ...")


def load(
    source: str | os.PathLike[str],
    *,
    edge_ids: bool | None = None,
    weights: bool = False,
    gpu_memory: int | None = None,
    replicate: str = "auto",
    halo_cache: int = 0,
    fanouts: Sequence[int] = (15, 10, 5),
    batch_size: int = 1024,
) -> Graph:
    """Loads parts, or reads or makes a graph. Collective: all ranks name the same one.

    Args:
        source: a directory that strata-partition wrote, or what its --input takes: "synthetic:products",
            "planted:parts=4,...", "ogb:DIR", "npy:DIR" ... Only parts can be loaded on several machines.
        edge_ids: whether batches name their edges (8 bytes per edge); by default where the graph has ids.
        weights: whether edge weights are loaded, for sampler="weighted".
        gpu_memory: bytes of each GPU that the graph may take; by default half of what is free.
        replicate: whether every machine keeps the structure of the whole graph: "auto", "on" or "off".
        halo_cache: bytes of host memory per machine for other machines' rows and neighbor lists.
        fanouts, batch_size: the batches to expect; they decide what lies where, not what can be loaded.

    Raises:
        InputError: the source cannot be used. OutOfMemory: it does not fit.
    """

    def arguments() -> tuple[_core.GraphSource, _core.GraphOptions]:
        options = _options(edge_ids, weights, gpu_memory, replicate, halo_cache, fanouts, batch_size)
        return _core.GraphSource(os.fspath(source)), options

    graph = Graph(_core.Graph.load(process(), *together(arguments)))
    graph._again = functools.partial(
        load,
        source,
        edge_ids=edge_ids,
        weights=weights,
        gpu_memory=gpu_memory,
        replicate=replicate,
        halo_cache=halo_cache,
        fanouts=fanouts,
        batch_size=batch_size,
    )
    return graph


def from_tensors(
    edge_index: Any,
    x: Any = None,
    y: Any = None,
    *,
    edge_weight: Any = None,
    train: Any = None,
    valid: Any = None,
    test: Any = None,
    num_nodes: int | None = None,
    gpu_memory: int | None = None,
    fanouts: Sequence[int] = (15, 10, 5),
    batch_size: int = 1024,
) -> Graph:
    """A graph from arrays in memory: torch's, NumPy's, or lists. On one machine; collective, and the first rank's count.

    Args:
        edge_index: [2, E] integers, sources first. Messages flow from source to destination, as in PyG.
        x: [N, columns] features; float32 and float16 stay where they are while the graph is made.
        y: [N] classes, -1 where there is none; or [N, classes] of 0 and 1.
        edge_weight: [E], at least 0.
        train, valid, test: ids, or masks of N truth values.
        num_nodes: N, where neither x nor y says it.
    """

    def arguments() -> tuple[_core.Arrays, _core.GraphOptions]:
        options = _options(None, edge_weight is not None, gpu_memory, "auto", 0, fanouts, batch_size)
        return _arrays(given, num_nodes), options

    given = {
        "edge_index": edge_index,
        "x": x,
        "y": y,
        "edge_weight": edge_weight,
        "train": train,
        "valid": valid,
        "test": test,
    }
    return Graph(_core.Graph.from_arrays(process(), *together(arguments)))


_SPLITS = ("train", "valid", "test")


def _split_array(value: Any, name: str) -> Any:
    """Ids, or a mask, which older libraries have of uint8."""
    array = host_array(value, name)
    if array.dtype == "uint8":
        raise InputError(f"{name} is of type uint8", "Give ids as int64, or a mask as bool: mask.bool().")
    return array


def _arrays(given: dict[str, Any], num_nodes: int | None) -> _core.Arrays:
    """The first rank's; others' are none, but their edges must be usable, too."""
    arrays = _core.Arrays()
    edge_index = ids_array(given["edge_index"], "edge_index")
    if process().rank == 0:
        for name, value in (given | {"edge_index": edge_index}).items():
            if value is not None:
                setattr(arrays, name, _split_array(value, name) if name in _SPLITS else host_array(value, name))
        arrays.num_nodes = None if num_nodes is None else _arguments.integer(num_nodes, "num_nodes", -(1 << 63))
    return arrays


def from_pyg(data: Any, **options: Any) -> Graph:
    """from_tensors() of a torch_geometric.data.Data: edge_index, x, y, edge_weight, train_mask, val_mask, test_mask."""
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise InputError(
            f"the {type(data).__name__} has no edge_index",
            "Give a Data with edges: a HeteroData by to_homogeneous(), and without torch_geometric.transforms.ToSparseTensor.",
        )
    names = {"train": "train_mask", "valid": "val_mask", "test": "test_mask", "x": "x", "y": "y", "edge_weight": "edge_weight"}
    given = {name: data[key] for name, key in names.items() if key in data and data[key] is not None}
    for name in ("train", "valid", "test"):
        if name in given and given[name].dim() != 1:
            raise InputError(f"{names[name]} has several columns", "Pass one of them: from_tensors(..., train=mask[:, 0]).")
    if "y" in given and given["y"].dim() == 2 and given["y"].size(1) == 1:
        given["y"] = given["y"].view(-1)
    return from_tensors(edge_index, num_nodes=data.num_nodes, **(given | options))


def from_dgl(graph: Any, **options: Any) -> Graph:
    """from_tensors() of a homogeneous DGLGraph: ndata "feat", "label", "train_mask", "val_mask", "test_mask"; edata "weight"."""
    import torch

    if not graph.is_homogeneous:
        raise InputError("the DGLGraph has several types of nodes or edges", "Give one type: dgl.to_homogeneous(graph, ndata=...).")

    names = {"x": "feat", "y": "label", "train": "train_mask", "valid": "val_mask", "test": "test_mask"}
    given = {name: graph.ndata[key] for name, key in names.items() if key in graph.ndata}
    for name in ("train", "valid", "test"):
        if name in given:
            given[name] = given[name].bool()
    if "weight" in graph.edata:
        given["edge_weight"] = graph.edata["weight"]
    return from_tensors(torch.stack(graph.edges()), num_nodes=graph.num_nodes(), **(given | options))


def from_networkx(graph: Any, x: str | None = None, y: str | None = None, edge_weight: Any = None, **options: Any) -> Graph:
    """from_tensors() of a networkx graph, whose nodes get the numbers 0, 1 ... in its own order.

    Args:
        x, y: node attributes that hold features and labels.
        edge_weight: the edge attribute that holds weights; or an array, as from_tensors() takes it.
    """
    import numpy

    number = {node: i for i, node in enumerate(graph.nodes)}
    edges = [(number[a], number[b]) for a, b in graph.edges()]
    opposite = [] if graph.is_directed() else [i for i, (a, b) in enumerate(edges) if a != b]
    edges += [edges[i][::-1] for i in opposite]
    given = {
        name: _attributes_of(((node, graph.nodes[node]) for node in graph.nodes), key, "node")
        for name, key in (("x", x), ("y", y))
        if key
    }
    if isinstance(edge_weight, str):
        weights = _attributes_of((((a, b), held) for a, b, held in graph.edges(data=True)), edge_weight, "edge")
        edge_weight = numpy.concatenate([weights, weights[numpy.array(opposite, dtype="int64")]])
    if "x" in given:
        given["x"] = given["x"].astype("float32").reshape(len(number), -1)
    edge_index = numpy.array(edges, dtype="int64").reshape(-1, 2).T
    return from_tensors(edge_index, num_nodes=len(number), edge_weight=edge_weight, **(given | options))


def _attributes_of(holders: Iterable[tuple[Any, Any]], key: str, what: str) -> numpy.ndarray:
    """The attribute of each node or edge, one row each."""
    import numpy

    values = []
    for holder, held in holders:
        if key not in held:
            raise InputError(f"{what} {holder!r} has no attribute {key!r}", f"Give every {what} one, or leave it out.")
        values.append(held[key])
    return numpy.array(values)
