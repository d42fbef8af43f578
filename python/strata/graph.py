# SPDX-License-Identifier: Apache-2.0
"""Graphs that the ranks of a run hold together."""

from __future__ import annotations

import functools
import itertools
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from strata import _arguments, _core
from strata._attributes import MOST_CLASSES, Attributes, HeldRows, are_targets
from strata._arrays import current_stream, host_array, ids_array, list_of_ids, to_numpy, to_torch
from strata._indices import as_tensor, rows_of
from strata._types import EdgeType, OneType, Types, arrays_of
from strata._process import not_for_other_processes, process, refuse_forks, register, together
from strata.errors import InputError

if TYPE_CHECKING:
    import types

    import numpy
    import torch

    from strata._links import Relation

_numbers = itertools.count()

# Attributes that scripts of PyG and DGL ask graphs for, and where a graph of Strata has them.
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
        if asked.is_mask:
            warn_of_mask(self._graph, "the index")
        rows = torch.empty((asked.ids.numel(), self._graph.num_features), device=process().device)
        self._graph._core.gather_features(cast(Any, asked.ids.long().to(rows.device)), cast(Any, rows), current_stream())
        return rows.view(*asked.shape, rows.shape[1])

    def __setitem__(self, ids: Any, rows: Any) -> None:
        """Writes rows [*ids.shape, num_features], or what can be expanded to them: one row, or one number; float32 values are rounded
        to the type in which the graph stores its features.

        Collective on any number of ranks, of which each writes its own rows, or none: features[[]] = 0. Of an id that is given several
        times the last row counts, of ranks that of the highest. All ranks read the new rows from then on; batches that loaders have made
        already keep theirs, so write between epochs. InputError for compressed rows, and where copies of rows (of the halo, or of
        several GPUs) would stay as they were.
        """
        asked, values = together(lambda: self._values(ids, rows))
        if asked.is_mask:
            warn_of_mask(self._graph, "the index")
        device, plain = process().device, values.reshape(asked.ids.numel(), self._graph.num_features)
        given = cast(Any, asked.ids.long().to(device))
        self._graph._core.write_features(given, cast(Any, _bytes_of(plain.to(device))), current_stream())

    def _values(self, ids: Any, rows: Any) -> tuple[Any, torch.Tensor]:
        """The index, and a row of the stored type for each id."""
        import torch

        asked = rows_of(ids, len(self), "nodes")
        wanted = (*asked.shape, self._graph.num_features)
        stored = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}.get(self._graph._core.feature_type)
        values = torch.tensor(float(rows)) if isinstance(rows, (int, float)) else as_tensor(rows)
        if self._graph.num_features == 0:
            raise InputError("the graph has no node features", "Build it from an input with features.")
        if stored is None:
            kind = self._graph._core.feature_type
            raise InputError(f"feature rows are stored as {kind} and cannot be written", "Build parts with --features f32, f16 or bf16.")
        if values.dtype not in (torch.float32, stored):
            raise InputError(f"rows are {values.dtype}", "Give float32: rows.float().")
        try:
            return asked, values.to(stored).expand(wanted)
        except RuntimeError:
            raise InputError(f"rows {tuple(values.shape)} for {wanted}", "Give one row per id, one row for all, or a number.") from None


def _bytes_of(rows: torch.Tensor) -> torch.Tensor:
    """The same memory; arrays of NumPy, by which the extension's stubs know arrays, have no bfloat16."""
    import torch

    plain = rows.contiguous()
    return (plain if plain.stride(-1) == 1 else plain.clone(memory_format=torch.contiguous_format)).view(torch.uint8)


class Labels:
    """The labels of a graph's nodes; `labels[ids]` gives some."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return self._graph.num_nodes

    def __getitem__(self, ids: Any) -> torch.Tensor:
        """int64 [*ids.shape] on this process's device, -1 where there is none; of sets of classes float32 [*ids.shape, classes], nan.

        Of targets, which are no classes, rows of the array that the graph was made with. Of ids as features takes them. On one
        machine; on several, loaders bring the labels of their seeds.
        """
        asked = rows_of(ids, len(self), "nodes")
        if asked.is_mask:
            warn_of_mask(self._graph, "the index")
        if (targets := self._graph._attributes.targets) is not None:
            self._graph._core.original_ids(cast(Any, asked.ids.long().cpu()))  # refuses what is no node's
            rows = targets[asked.ids.long()].to(process().device)
            return rows.view((*asked.shape, *rows.shape[1:]))
        labels = to_torch(self._graph._core.labels(cast(Any, asked.ids.long().cpu())))
        return labels.to(process().device).view((*asked.shape, *labels.shape[1:]))


class Graph:
    """A graph that all ranks of the run hold together; made by load() and from_tensors().

    Ids of nodes are the graph's own numbers: of a graph from tensors, positions in them; of parts, the numbers that
    partitioning gave. `ids(original_ids)` and `original_ids(ids)` go from the input's numbers to these and back, and loaders
    take masks and ids of the input with `original=True`.
    """

    def __init__(self, core: _core.Graph, attributes: Attributes | None = None, types: Types | None = None) -> None:
        self._core = core
        self._types = types  # None: one type of nodes, and one relation
        self._again: functools.partial[Graph] | None = None  # makes it in another process; None: from what it holds
        self._attributes = attributes or Attributes()
        self._only_samples_weights = False  # loaded with weights, without an array that batches could look up
        self._number = next(_numbers)
        register(self)

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        # After an error other ranks may never come; the end of the run frees what is left.
        if kind is None or process().size == 1:
            self.close()

    def close(self) -> None:
        """Closes the graph's loaders and gives the memory back. Collective. Batches that are in use stay."""
        refuse_forks()
        if "_core" in vars(self):
            self._core.close()

    def __reduce__(self) -> Any:
        """Another process makes the graph again, when it first uses it: from its source, or from tensors in shared memory."""
        if self._types is not None:
            raise not_for_other_processes("a graph of several types")
        if self._again is None:
            if process().size > 1:
                raise not_for_other_processes("a graph that several ranks made of tensors")
            self._again = functools.partial(from_tensors, **self._arguments())
        return _to_be_made, ({name: held for name, held in vars(self).items() if name not in ("_core", "_number")},)

    def _arguments(self) -> dict[str, Any]:
        """The arguments of from_tensors() that make this graph. Not collective; on one machine."""
        import torch

        nodes = torch.arange(self.num_nodes)
        found, targets = self.in_edges(nodes), self._attributes.targets
        y = self.labels[:].cpu() if self._core.has_labels else None
        edge_index = torch.stack([torch.from_numpy(found.sources), nodes.repeat_interleave(torch.from_numpy(found.counts))])
        weights = None if found.weights is None else torch.from_numpy(found.weights)
        if found.edge_ids is not None:
            order = torch.from_numpy(found.edge_ids).argsort()
            edge_index, weights = edge_index[:, order], None if weights is None else weights[order]
        return {
            "edge_index": edge_index,
            "x": self._features_on_cpu() if self.num_features else None,
            "y": y if targets is None else targets.values,
            "edge_weight": weights,
            "num_nodes": self.num_nodes,
        } | {split: self.nodes(split) for split in _SPLITS}

    def _features_on_cpu(self) -> torch.Tensor:
        """All rows, through a part of the device's memory."""
        import torch

        rows, at_once = torch.empty(self.features.shape), 1 << 20
        for first in range(0, self.num_nodes, at_once):
            rows[first : first + at_once] = self.features[first : first + at_once]
        return rows

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
        """The name of the folder of parts, the dataset or the generator. Not collective, like all of these properties."""
        return self._core.name

    @property
    def num_nodes(self) -> int:
        """The number of nodes of the whole graph, on all machines together; ids are below it."""
        return self._core.num_nodes

    @property
    def node_types(self) -> list[str]:
        """The names of the types of nodes, in the order of the graph's ids, which are a range for each type."""
        return ["node"] if self._types is None else list(self._types.node_types)

    @property
    def edge_types(self) -> list[tuple[str, str, str]]:
        """The relations: (type of sources, name, type of destinations)."""
        return [("node", "to", "node")] if self._types is None else list(self._types.edge_types)

    def metadata(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """(node_types, edge_types), as torch_geometric.data.HeteroData.metadata() and PyG's layers have it."""
        return self.node_types, self.edge_types

    @property
    def num_edges(self) -> int:
        """The number of edges of the whole graph, each direction counted."""
        return self._core.num_edges

    @property
    def num_features(self) -> int:
        """Columns of the features; 0 if there are none."""
        return self._core.num_features

    @property
    def num_classes(self) -> int:
        """The number of classes of the labels; 0 if there are none."""
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

        Of parts with targets float32 [num_nodes] or [num_nodes, columns], nan where one is missing.

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
        """int64 [n] on the CPU: ids of "train", "valid" (or "val") or "test", of all machines. Not collective."""
        return to_torch(self._core.nodes_of(_arguments.word(split, "split"))).clone()

    def links(self, split: str, edge_type: Any = None) -> torch.Tensor:
        """int64 [2, n] on the CPU: ends of the edges of "valid" (or "val") or "test" that no neighbor list has, as loaders of
        links take them. Not collective.

        Of a graph of several relations those of edge_type, counted within their types. Edges of training are those of the lists,
        which loaders take where edge_label_index is None or names a relation only.
        """
        import torch

        rows, relation = self._held(split, edge_type)
        sources, destinations = rows[:, 0], rows[:, 1]
        if self._types is None:
            return torch.stack([self.ids(sources), self.ids(destinations)])
        return torch.stack([sources - relation.sources[0], destinations - relation.destinations[0]])

    def link_ids(self, split: str, edge_type: Any = None) -> torch.Tensor:
        """int64 [n] on the CPU: ids of the edges of links(), which are positions among the input's edges. Not collective."""
        rows, relation = self._held(split, edge_type)
        return rows[:, 2] - relation.first_edge

    def _held(self, split: str, edge_type: Any) -> tuple[torch.Tensor, Relation]:
        """int64 [n, 3] original ids of ends, and edge ids, of a relation's edges of a split; and the relation."""
        from strata._links import edges_of, relation_of

        split = _arguments.word(split, "split")
        if split == "train":
            raise InputError(
                "edges of training are those of the neighbor lists",
                "Loaders of links take them where edge_label_index is None, or names a relation only.",
            )
        if (edge_type is None) != (self._types is None):
            raise InputError(
                "the graph has several relations" if edge_type is None else "the graph has one relation",
                f"Name one of {self.edge_types}." if edge_type is None else "Leave edge_type out.",
            )
        edge = None if self._types is None else self._types.edge_type(edge_type)
        rows = to_torch(self._core.held_edges(split))
        first, end = edges_of(self, edge)
        return rows[(rows[:, 2] >= first) & (rows[:, 2] < end)], relation_of(self, edge)

    def original_ids(self, ids: Any) -> torch.Tensor:
        """int64 [n]: the numbers that these nodes had in the input; on the CPU. Not collective."""
        return to_torch(self._core.original_ids(list_of_ids(ids, "ids")))

    def ids(self, original_ids: Any) -> torch.Tensor:
        """int64 [n]: the graph's numbers of nodes that the input numbered so; on the CPU. Not collective."""
        return to_torch(self._core.global_ids(list_of_ids(original_ids, "original_ids")))

    @property
    def is_renumbered(self) -> bool:
        """Whether a node's id is not its number in the input, as in parts. Not collective; the first call looks at all nodes."""
        return self._core.is_renumbered

    def plan(self) -> list[dict[str, Any]]:
        """The placement: tensor, stratum ("replicated", "striped", "host"), rows, bytes, expected share of reads. Not collective."""
        return self._core.plan()

    def __repr__(self) -> str:
        if "_core" not in vars(self):
            return "strata.Graph(to be made in this process)"
        if not self._core.is_open:
            return "strata.Graph(closed)"
        if self._types is not None:
            return f"strata.Graph({len(self.node_types)} types, {len(self.edge_types)} relations, nodes={self.num_nodes}, edges={self.num_edges})"
        return f"strata.Graph({self.name!r}, nodes={self.num_nodes}, edges={self.num_edges}, features={self.num_features})"


def _to_be_made(held: dict[str, Any]) -> Graph:
    """A graph that its first use makes, once the process has its rank and its device. That use is collective."""
    graph = Graph.__new__(Graph)
    vars(graph).update(held)
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


def require_graph(graph: Any, several_types: bool = False) -> None:
    """TypeError for anything else than a Graph, such as one of another library; InputError in a process that was forked, and for a
    graph of several types where one is needed."""
    refuse_forks()
    if not isinstance(graph, Graph):
        raise TypeError(f"the graph is {graph!r}; give one of strata.load(), from_tensors(), from_pyg(data), from_dgl(graph) ...")
    if graph._types is not None and not several_types:
        raise InputError(
            "the graph has several types of nodes or edges, which loaders and strata.dgl.HeteroGraph take",
            "Make one of a single type: strata.from_pyg(data.to_homogeneous()).",
        )


def warn_of_mask(graph: Graph, what: str) -> None:
    """A mask in the order of the input picks other nodes of a graph that numbers them anew."""
    if graph._core.is_renumbered:
        warnings.warn(
            f"{what} is a mask of all nodes, and this graph has numbered its nodes anew: the mask is read in the graph's order, not "
            "in the input's. graph.ids(mask.nonzero().view(-1)) are the nodes of a mask in the order of the input, which loaders "
            "take with original=True; original=False says that the graph's order is meant",
            stacklevel=_arguments.caller(),
        )


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
            "planted:parts=4,...", "ogb:DIR", "npy:DIR" ... Only parts can be loaded on several machines. Nodes of parts have
            other numbers than in the input: see Graph.
        edge_ids: whether batches name their edges (8 bytes per edge); by default where the graph has ids.
        weights: whether edge weights are loaded, for sampler="weighted"; batches do not have them.
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

    from strata._typed_parts import stored_types

    core = _core.Graph.load(process(), *together(arguments))
    graph = Graph(core, types=together(lambda: stored_types(core, edge_ids is not False)))
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
    graph._only_samples_weights = weights
    return graph


def from_tensors(
    edge_index: Any,
    x: Any = None,
    y: Any = None,
    *,
    edge_weight: Any = None,
    train: Any = None,
    valid: Any = None,
    val: Any = None,
    test: Any = None,
    num_nodes: int | None = None,
    node_attrs: Mapping[str, Any] | None = None,
    edge_attrs: Mapping[str, Any] | None = None,
    gpu_memory: int | None = None,
    fanouts: Sequence[int] = (15, 10, 5),
    batch_size: int = 1024,
) -> Graph:
    """A graph from arrays in memory: torch's, NumPy's, or lists. On one machine; collective, and the first rank's count.

    Args:
        edge_index: [2, E] integers, sources first. Messages flow from source to destination, as in PyG.
        x: [N, columns] features; float32 and float16 stay where they are while the graph is made.
        y: [N] classes, -1 where there is none; or [N, classes] of 0 and 1. Other floating-point numbers are targets, [N] or
            [N, ...], which batches have as they are; the graph then has no classes.
        edge_weight: [E], at least 0.
        train, valid (or val), test: ids, or masks of N truth values.
        num_nodes: N, where neither x nor y says it.
        node_attrs, edge_attrs: further arrays of N or E rows by name: NeighborLoader's batches have their rows, and those of
            edge_weight. Rows are read where an array lies, and each rank reads its own.
    """

    def arguments() -> tuple[_core.Arrays, _core.GraphOptions, Attributes]:
        if valid is not None and val is not None:
            raise InputError("valid and val are both given", "They are two names for one: give one of them.")
        options = _options(None, edge_weight is not None, gpu_memory, "auto", 0, fanouts, batch_size)
        attributes = _attributes(y, {"edge_weight": edge_weight} | dict(edge_attrs or {}), dict(node_attrs or {}))
        if attributes.targets is not None:
            given["y"] = None
        of_nodes = [rows for rows in (attributes.targets, *attributes.nodes.values()) if rows is not None]
        nodes = num_nodes if num_nodes is not None or x is not None or not of_nodes else len(of_nodes[0])
        return _arrays(given, nodes), options, attributes

    given = {
        "edge_index": edge_index,
        "x": x,
        "y": y,
        "edge_weight": edge_weight,
        "train": train,
        "valid": valid if val is None else val,
        "test": test,
    }
    arrays, options, attributes = together(arguments)
    graph = Graph(_core.Graph.from_arrays(process(), arrays, options), attributes)
    try:
        together(lambda: attributes.check(graph.num_nodes, graph.num_edges, x is not None))
    except Exception:
        graph.close()
        raise
    return graph


def from_types(
    nodes: Mapping[str, OneType],
    edges: Mapping[EdgeType, OneType],
    edge_index: Mapping[EdgeType, Any],
    *,
    gpu_memory: int | None = None,
    fanouts: Sequence[int] = (15, 10, 5),
    batch_size: int = 1024,
) -> Graph:
    """A graph of several types from arrays in memory, in the order of the dicts. On one machine; collective, the first rank's count.

    Args:
        nodes: the number of nodes of each type, and arrays with a row for each.
        edges: the same of each relation (source type, name, destination type). "edge_weight", [E], is what sampler="weighted"
            chooses by; relations without it have weights of 1 beside others.
        edge_index: [2, E] of each relation, sources first, counted within their types.
        gpu_memory, fanouts, batch_size: as from_tensors() has them.
    """

    def arguments() -> tuple[_core.TypedArrays, _core.GraphOptions]:
        typed.check()
        weights = {kind: one.attributes["edge_weight"] for kind, one in edges.items() if "edge_weight" in one.attributes}
        options = _options(True, bool(weights), gpu_memory, "auto", 0, fanouts, batch_size)
        return arrays_of(typed, edge_index, weights), options

    typed = Types(nodes, edges)
    return Graph(_core.Graph.from_typed_arrays(process(), *together(arguments)), types=typed)


def _attributes(y: Any, of_edges: dict[str, Any], of_nodes: dict[str, Any]) -> Attributes:
    def rows_of_each(values: dict[str, Any]) -> dict[str, HeldRows]:
        return {name: value if isinstance(value, HeldRows) else HeldRows(value) for name, value in values.items() if value is not None}

    has_targets = y is not None and are_targets(host_array(y, "y"))
    return Attributes(rows_of_each(of_nodes), rows_of_each(of_edges), targets=HeldRows(as_tensor(y)) if has_targets else None)


_SPLITS = ("train", "valid", "test")


def _labels(y: Any) -> Any:
    """Refuses what can be no classes, such as times."""
    array = host_array(y, "y")
    if array.ndim == 1 and array.size and (largest := array.max()) >= MOST_CLASSES:
        raise InputError(
            f"y has the class {largest}, where {MOST_CLASSES} classes are the most",
            "Number the classes from 0: y = torch.unique(y, return_inverse=True)[1]. Of targets give y.float().",
        )
    return array


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
                array = _labels(value) if name == "y" else _split_array(value, name) if name in _SPLITS else host_array(value, name)
                setattr(arrays, name, array)
        arrays.num_nodes = None if num_nodes is None else _arguments.integer(num_nodes, "num_nodes", -(1 << 63))
    return arrays
