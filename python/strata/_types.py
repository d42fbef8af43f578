# SPDX-License-Identifier: Apache-2.0
"""Graphs of several types of nodes and edges: ids of a type are a range of one space of ids, for nodes as for edges."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from strata import _arguments, _core
from strata._arrays import host_array, ids_array, list_of_ids, on_device, to_torch
from strata._attributes import HeldRows
from strata._process import process
from strata.batches import BlockTypes
from strata.errors import InputError

if TYPE_CHECKING:
    import numpy
    import torch

    from strata.batches import Block
    from torch_geometric.data import HeteroData

EdgeType = tuple[str, str, str]
# What batches have of their own for each type of nodes or edges.
RESERVED = frozenset(
    {"n_id", "e_id", "input_id", "batch_size", "edge_index", "num_sampled_nodes", "num_sampled_edges", "num_nodes"}
)


class OneType(NamedTuple):
    """Nodes or edges of one type: how many there are, and arrays with a row for each."""

    size: int
    attributes: dict[str, Any]


class Types:
    """The types of a graph, in the order of the graph's numbers, and the arrays that belong to them.

    Each rank holds the arrays that it was given itself. Where x of all types is float32 or float16 and has as many columns, the graph
    itself holds it, and its loaders gather it; other arrays of two dimensions are read where they lie, by the GPU in place. The rest
    is copied to the device when a batch first wants it.
    """

    def __init__(
        self, nodes: Mapping[str, OneType], edges: Mapping[EdgeType, OneType], feature_cols: Sequence[int] | None = None
    ) -> None:
        self.nodes = dict(nodes)
        self.edges = dict(edges)
        self.node_types = list(nodes)
        self.edge_types = list(edges)
        self.node_offsets = [0, *itertools.accumulate(one.size for one in nodes.values())]
        self.edge_offsets = [0, *itertools.accumulate(one.size for one in edges.values())]
        self._rows: dict[tuple[Any, str], Any] = {}
        self.x = _joined_x(list(self.nodes.values())) if feature_cols is None else None
        if self.x is not None:
            self.nodes = {
                kind: OneType(one.size, {n: v for n, v in one.attributes.items() if n != "x"}) for kind, one in nodes.items()
            }
        joined = [0 if self.x is None else self.x.shape[1]] * len(nodes)
        self.feature_cols = joined if feature_cols is None else list(feature_cols)  # that the graph itself holds, by type
        self.labels_come_with_seeds = False  # those of other nodes are on other machines

    def check(self) -> None:
        """Refuses arrays with other numbers of rows than there are nodes or edges."""
        for kind, one in [*self.nodes.items(), *self.edges.items()]:
            for name, values in one.attributes.items():
                if len(values) != one.size:
                    raise InputError(
                        f"{name} of {kind!r} has {len(values)} rows, but there are {one.size}", "Give one row for each of them."
                    )

    def edge_type(self, key: Any) -> EdgeType:
        """The relation that PyG's keys name: a triple, or a part of it that only one relation has."""
        words = tuple(key.split("__")) if isinstance(key, str) else tuple(key)
        if words in self.edges:
            return words
        if len(words) == 2:
            found = [edge for edge in self.edge_types if (edge[0], edge[2]) == words]
        else:
            found = [edge for edge in self.edge_types if len(words) == 1 and edge[1] == words[0]]
        if len(found) != 1:
            what = f"{len(found)} relations are called" if found else "the graph has no relation"
            raise InputError(f"{what} {key!r}", f"It has {self.edge_types}.")
        return found[0]

    def ends(self, edge: EdgeType) -> tuple[int, int]:
        """The numbers of sources and of destinations of a relation."""
        return self.nodes[edge[0]].size, self.nodes[edge[2]].size

    def fanouts(self, num_neighbors: Any) -> list[list[int]]:
        """[hops][relations] of a list for every relation, a dict that names all of them, or PyG's NumNeighbors."""
        values, default = num_neighbors, None
        if hasattr(num_neighbors, "default") and not isinstance(num_neighbors, Mapping):
            values, default = num_neighbors.values, num_neighbors.default
        if not isinstance(values, Mapping):
            return [[fanout] * len(self.edge_types) for fanout in _fanouts(values)]
        given = {self.edge_type(key): _fanouts(of_hops) for key, of_hops in values.items()}
        missing = [edge for edge in self.edge_types if edge not in given]
        if missing and default is None:
            raise InputError(
                f"num_neighbors does not name the relation {missing[0]}",
                "Give fanouts for every relation, [0, 0] for none, or NumNeighbors({...}, default=[10, 5]).",
            )
        of_relations = [given[edge] if edge in given else _fanouts(default) for edge in self.edge_types]
        if len({len(of_hops) for of_hops in of_relations}) != 1:
            raise InputError(
                "num_neighbors: the number of hops must be the same across all relations",
                "Give 0 where a relation has no edges.",
            )
        return [list(of_hop) for of_hop in zip(*of_relations)]

    def most_fanouts(self, num_neighbors: Any) -> tuple[list[list[int]], list[int]]:
        """Fanouts by hop and relation, and the most of each hop."""
        of_relations = self.fanouts(num_neighbors)
        return of_relations, [-1 if min(of_hop) < 0 else max(of_hop) for of_hop in of_relations]

    def choices(self, num_neighbors: Any, input_nodes: Any) -> tuple[list[list[int]], list[int], Seeds]:
        """Fanouts by hop and relation, the most of each hop, and the seeds."""
        return *self.most_fanouts(num_neighbors), self.seeds(input_nodes)

    def labels(self, nodes: torch.Tensor, seeds: Seeds | None) -> torch.Tensor | None:
        """y of seeds of a single type, by the graph's numbers; None without it."""
        if seeds is None or len(seeds.types) != 1 or "y" not in self.nodes[seeds.types[0]].attributes:
            return None
        return self.rows(seeds.types[0], "y", nodes - self.node_offsets[self.node_types.index(seeds.types[0])])

    def seeds(self, input_nodes: Any) -> Seeds:
        """The nodes of "paper", ("paper", ids or mask or None), or several of these in a list or dict."""
        if isinstance(input_nodes, Mapping):
            given = list(input_nodes.items())
        elif isinstance(input_nodes, list) and input_nodes and all(isinstance(one, tuple) for one in input_nodes):
            given = input_nodes
        else:
            given = [input_nodes if isinstance(input_nodes, tuple) else (input_nodes, None)]
        types, ids, are_masked = [], [], []
        for one in given:
            kind, nodes = one if len(one) == 2 else (one, None)
            if not isinstance(kind, str) or kind not in self.nodes:
                raise InputError(
                    f"input_nodes names no type of nodes: {kind!r}",
                    f'Give one of {self.node_types}, or one with ids or a mask: ("{self.node_types[0]}", mask).',
                )
            if kind in types:
                raise InputError(f"input_nodes names {kind!r} twice", "Give all nodes of a type together.")
            if all(edge[2] != kind for edge in self.edge_types):
                warnings.warn(
                    f"no relation goes to {kind!r}: its nodes are seeds without edges", stacklevel=_arguments.caller()
                )
            types.append(kind)
            ids.append(self._ids(kind, nodes))
            are_masked.append(nodes is not None and host_array(nodes, "input_nodes").dtype == bool)
        return Seeds(types, ids, are_masked)

    def _ids(self, kind: str, nodes: Any) -> Any:
        """int64 ids within the type."""
        import numpy

        count = self.nodes[kind].size
        if nodes is None:
            return numpy.arange(count, dtype="int64")
        array = host_array(nodes, "input_nodes")
        if array.dtype == bool:
            if array.shape != (count,):
                raise InputError(
                    f"a mask of shape {array.shape} for {count} nodes of {kind!r}", "Give one truth value per node."
                )
            return array.nonzero()[0]
        found = list_of_ids(array, "input_nodes")
        if len(found) and not 0 <= found.min() <= found.max() < count:
            raise IndexError(f"input_nodes has {found.min()} to {found.max()}, but there are {count} nodes of {kind!r}")
        return found

    def core_ids(self, seeds: Seeds) -> numpy.ndarray:
        """int64: the numbers of the seeds in the input."""
        import numpy

        offsets = dict(zip(self.node_types, self.node_offsets))
        return numpy.concatenate([ids + offsets[kind] for kind, ids in zip(seeds.types, seeds.ids)])

    def rows(self, kind: str | EdgeType, name: str, ids: torch.Tensor) -> torch.Tensor:
        """The rows of an array for these ids of a type, on their device."""
        held = self._rows.get((kind, name))
        if held is None:
            one = self.nodes[kind] if isinstance(kind, str) else self.edges[kind]
            held = self._rows[kind, name] = _rows_of(one.attributes[name])
        return cast("torch.Tensor", held[ids])

    def batch(self, made: _core.NodeBatch, seeds: Seeds) -> HeteroData:
        """A batch as PyG's loaders give it: for each type its own numbers, those of seeds first, then in the order of hops."""
        y = _labels_in_place(made) if self.labels_come_with_seeds else None
        data, nodes, _ = self.numbered(made)
        if y is not None:
            for kind, (part, _) in zip(self.node_types, nodes.parts()):
                if kind in seeds.types:
                    data[kind].y = y[nodes.order[part]]
        self._say_seeds(data, to_torch(made.input_ids), seeds)
        return data

    def numbered(self, made: _core.NodeBatch) -> tuple[HeteroData, _Split, torch.Tensor]:
        """The same without what seeds have; and the number of each of the batch's nodes within its type."""
        from torch_geometric.data import HeteroData

        data = HeteroData()
        nodes = _Split.of(to_torch(made.original_ids), self.node_offsets, made.nodes_of_hop)
        edges = _Split.of(to_torch(made.edge_ids), self.edge_offsets, made.edges_of_hop)
        local = nodes.places(self.node_offsets)
        x = None if made.features is None else to_torch(made.features)[nodes.order]
        edge_index = local[to_torch(made.edge_index)[:, edges.order]]
        for kind, cols, (part, of_hops) in zip(self.node_types, self.feature_cols, nodes.parts()):
            store, ids = data[kind], nodes.ids[part]
            store.n_id, store.num_sampled_nodes, store.num_nodes = ids, of_hops, len(ids)
            if x is not None and cols:
                store.x = x[part, :cols]
            for name in self.nodes[kind].attributes:
                store[name] = self.rows(kind, name, ids)
        for relation, (part, of_hops) in zip(self.edge_types, edges.parts()):
            store, ids = data[relation], edges.ids[part]
            store.edge_index, store.e_id, store.num_sampled_edges = edge_index[:, part], ids, of_hops
            for name in self.edges[relation].attributes:
                store[name] = self.rows(relation, name, ids)
        return data, nodes, local

    def mark(self, blocks: list[Block], nodes: torch.Tensor) -> None:
        """Says what the nodes and edges of a batch's blocks are; `nodes` are the original ids of the input nodes."""
        import torch

        ends = [on_device(offsets[1:], nodes.device) for offsets in (self.node_offsets, self.edge_offsets)]
        of_nodes = torch.bucketize(nodes, ends[0], right=True)
        for block in blocks:
            assert block.edge_ids is not None
            of_edges = torch.bucketize(block.edge_ids, ends[1], right=True)
            block.types = BlockTypes(self.node_types, self.edge_types, of_nodes[: block.num_src], of_edges)

    def _say_seeds(self, data: HeteroData, input_ids: torch.Tensor, seeds: Seeds) -> None:
        """Which of the given nodes the seeds of each type are."""
        if len(seeds.types) == 1:
            data.input_type = seeds.types[0]
            data[seeds.types[0]].input_id = seeds.input_ids(0, input_ids)
            data[seeds.types[0]].batch_size = len(input_ids)
            return
        for number, (kind, of_type) in enumerate(zip(seeds.types, seeds.split(input_ids))):
            data[kind].input_id, data[kind].batch_size = seeds.input_ids(number, of_type), len(of_type)


class Seeds(NamedTuple):
    """Input nodes by type."""

    types: list[str]
    ids: list[numpy.ndarray]  # within the type
    are_masked: list[bool]  # whether a mask named them

    def input_ids(self, number: int, positions: torch.Tensor) -> torch.Tensor:
        """What PyG calls positions of a type among those given: positions in the mask, if that is what was given."""
        import torch

        if not self.are_masked[number]:
            return positions
        return torch.from_numpy(self.ids[number]).to(positions.device)[positions]

    @property
    def size(self) -> int:
        """The number of nodes of all types."""
        return sum(len(ids) for ids in self.ids)

    def split(self, positions: torch.Tensor) -> list[torch.Tensor]:
        """Positions among all of them as positions among those of each type."""
        firsts = [0, *itertools.accumulate(len(ids) for ids in self.ids)]
        return [positions[(positions >= first) & (positions < end)] - first for first, end in zip(firsts, firsts[1:])]


class _Split(NamedTuple):
    """Nodes or edges of a batch, sorted by type; those of a type stay in their order."""

    order: torch.Tensor
    ids: torch.Tensor  # within their types, sorted
    types: torch.Tensor  # sorted
    counts: list[list[int]]  # by type and hop

    @classmethod
    def of(cls, ids: torch.Tensor, offsets: Sequence[int], of_hops: Sequence[int]) -> _Split:
        import torch

        starts = on_device(list(offsets), ids.device)
        types = torch.bucketize(ids, starts[1:], right=True).to(torch.int16 if len(offsets) < 1 << 15 else torch.int32)
        types, order = types.sort(stable=True)
        types = types.long()
        ends = on_device(list(itertools.accumulate(of_hops)), ids.device)
        hops = torch.bucketize(order, ends, right=True)
        kinds = len(offsets) - 1
        counts = torch.bincount(types * len(of_hops) + hops, minlength=kinds * len(of_hops)).view(kinds, -1)
        return cls(order, ids[order] - starts[types], types, counts.tolist())

    def parts(self) -> Iterable[tuple[slice, list[int]]]:
        """Where each type lies, and how many of it each hop has."""
        first = 0
        for of_hops in self.counts:
            yield slice(first, first := first + sum(of_hops)), of_hops

    def places(self, offsets: Sequence[int]) -> torch.Tensor:
        """int64: the place of each node, in the batch's order, among those of its type."""
        import torch

        firsts = on_device([0, *itertools.accumulate(sum(of_hops) for of_hops in self.counts)], self.ids.device)
        places = torch.empty_like(self.order)
        places[self.order] = torch.arange(len(self.order), device=self.ids.device) - firsts[self.types]
        return places


def _labels_in_place(made: _core.NodeBatch) -> torch.Tensor | None:
    """int64 [num_nodes]: the labels of seeds, -1 for other nodes; None without them."""
    import torch

    if made.labels is None:
        return None
    labels = to_torch(made.labels)
    rest = torch.full((made.num_nodes - len(labels),), -1, dtype=labels.dtype, device=labels.device)
    return torch.cat([labels, rest])


def _joined_x(types: list[OneType]) -> torch.Tensor | None:
    """x of all types as one matrix, if that is what they are."""
    import torch

    found = [one.attributes.get("x") for one in types]
    of_types = [x for x in found if isinstance(x, torch.Tensor) and x.dim() == 2 and x.dtype in (torch.float32, torch.float16)]
    shapes = {(x.shape[1], x.dtype) for x in of_types}
    if len(of_types) != len(types) or len(shapes) != 1 or not all(len(x) == one.size for x, one in zip(of_types, types)):
        return None
    return torch.cat([x.detach().cpu() for x in of_types])


def _fanouts(values: Any) -> list[int]:
    return _arguments.fanouts(values, "num_neighbors", zero=True)


def _rows_of(values: Any) -> Any:
    from strata.unified_tensor import unified

    held = values if isinstance(values, HeldRows) else HeldRows(values)
    rows = held.values
    if held.dim == 0 and rows.dim() > 1 and rows.is_contiguous() and rows.device.type == "cpu" and rows.numel():
        return unified(rows, check=False)
    return HeldRows(rows.to(process().device), held.dim)


def arrays_of(types: Types, edges: Mapping[EdgeType, Any], weights: Mapping[EdgeType, Any]) -> _core.TypedArrays:
    """What the extension takes; the first rank's counts."""
    arrays = _core.TypedArrays()
    arrays.nodes = [(kind, one.size) for kind, one in types.nodes.items()]
    if types.x is not None and process().rank == 0:
        arrays.x = host_array(types.x, "x")
    arrays.edges = [
        (
            kind,
            ids_array(edge_index, f"edge_index of {kind}"),
            host_array(weights[kind], "edge_weight") if kind in weights else None,
        )
        for kind, edge_index in edges.items()
    ]
    return arrays
