# SPDX-License-Identifier: Apache-2.0
"""PyG's protocol for remote backends on graphs of Strata, for PyG's own loaders and samplers.

    from strata.pyg import stores_of
    from torch_geometric.loader import NeighborLoader

    loader = NeighborLoader(stores_of(graph), num_neighbors=[15, 10], input_nodes=graph.nodes("train"), batch_size=1024)

PyG's NeighborLoader samples by itself, on the CPU, with pyg-lib or torch-sparse. strata.NeighborLoader gives the same kind of
batches faster, and needs neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch_geometric import data as pyg_data
from torch_geometric.data.feature_store import TensorAttr
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout

from strata._indices import Rows, rows_of
from strata._process import not_for_other_processes, process
from strata.errors import InputError
from strata.graph import Features, Graph, Labels, require_graph

if TYPE_CHECKING:
    from torch import Tensor


def stores_of(graph: Graph) -> tuple[FeatureStore, GraphStore]:
    """The data that PyG's loaders take."""
    require_graph(graph, several_types=True)
    return FeatureStore(graph), GraphStore(graph)


class FeatureStore(pyg_data.FeatureStore):  # type: ignore[misc]  # PyG has no types
    """Rows of a graph: "x" float32 [n, num_features], and on one machine "y" of graphs with labels, as graph.labels gives them.

    Tensors lie on this process's device. Reading is collective if the run has several machines. Nothing can be written. The
    group's name is None where there is one type of nodes. Of a graph of several types it is the name of a type of nodes, or a
    relation, and there are all arrays that the graph was made with; a type without any has "id", its nodes' numbers.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """The attributes of what the graph has: "x" and "y", or the arrays of each type."""
        return [TensorAttr(group, name) for group, name in self._sizes()]

    def _sizes(self) -> dict[tuple[Any, str], tuple[int, ...]]:
        """The shape of each tensor, by group and name."""
        core, types = self._graph._core, self._graph._types
        sizes: dict[tuple[Any, str], tuple[int, ...]] = {}
        if types is None:
            if core.num_features > 0:
                sizes[None, "x"] = core.num_nodes, core.num_features
            if core.has_labels and process().num_machines == 1:
                sizes[None, "y"] = core.num_nodes, *((core.num_classes,) if core.multi_label else (core.num_targets,) if core.num_targets > 1 else ())
            return sizes
        for group, one in [*types.nodes.items(), *types.edges.items()]:
            if isinstance(group, str) and types.x is not None:
                sizes[group, "x"] = one.size, core.num_features
            for name, values in one.attributes.items():
                sizes[group, name] = one.size, *values.shape[1:]
            if isinstance(group, str) and types.x is None and not one.attributes:
                sizes[group, "id"] = (one.size,)
        return sizes

    def _get_tensor(self, attr: TensorAttr) -> Tensor:
        sizes = self._sizes()
        if (attr.group_name, attr.attr_name) not in sizes:
            raise KeyError(f"no tensor {attr.attr_name!r} of {attr.group_name!r}; there are {list(sizes)}")
        index = slice(None) if attr.index is None else attr.index
        if self._graph._types is not None:
            return self._of_types(attr.group_name, attr.attr_name, rows_of(index, sizes[attr.group_name, attr.attr_name][0], "rows"))
        rows: Features | Labels = self._graph.features if attr.attr_name == "x" else self._graph.labels
        return rows[index]

    def _of_types(self, group: Any, name: str, asked: Rows) -> Tensor:
        types = self._graph._types
        assert types is not None
        ids = asked.ids.long().to(process().device)
        size = self._sizes()[group, name][0]
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < size:
            raise IndexError(f"rows {int(ids.min())} to {int(ids.max())} of {name!r} of {group!r}, which has {size}")
        if name == "id":
            rows = ids
        elif name == "x" and types.x is not None and isinstance(group, str):
            rows = self._graph.features[ids + types.node_offsets[types.node_types.index(group)]]
        else:
            rows = types.rows(group, name, ids)
        return rows.view(*asked.shape, *rows.shape[1:])

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        size = self._sizes().get((attr.group_name, attr.attr_name))
        if size is None:
            return None
        rows = size[:1] if attr.index is None else rows_of(attr.index, size[0], "nodes").shape
        return (*rows, *size[1:])

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise _read_only()

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise _read_only()

    def __reduce__(self) -> Any:
        raise not_for_other_processes("a feature store")


_Lists = tuple[Any, Any, Any]  # (row int64 [E], colptr int64 [N + 1], ids of edges int64 [E] or None)


class GraphStore(pyg_data.GraphStore):  # type: ignore[misc]
    """The edges of a graph, as PyG's samplers take them: int64 lists of in-neighbors in host memory, for each relation.

    They are copied when they are first asked for, and need all of the graph's structure on this machine. e_id of PyG's batches
    are the graph's ids of edges, where it has any. Nothing can be written. The relation of a graph of one type is None.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        self._lists: dict[Any, _Lists] = {}

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The attributes of each relation, as lists of in-neighbors."""
        types, nodes = self._graph._types, self._graph.num_nodes
        sizes = {None: (nodes, nodes)} if types is None else {edge: types.ends(edge) for edge in types.edge_types}
        return [EdgeAttr(edge, EdgeLayout.CSC, is_sorted=True, size=size) for edge, size in sizes.items()]

    def csc(self, edge_types: Any = None, store: bool = False) -> _Lists:
        """(row int64 [E], colptr int64 [N + 1], ids of edges int64 [E] or None), of a graph of several types each by relation."""
        lists = self._read()
        if self._graph._types is None:
            return lists[None]
        chosen = list(lists) if edge_types is None else edge_types
        of_relations = [{edge: lists[edge][part] for edge in chosen} for part in range(3)]
        return of_relations[0], of_relations[1], of_relations[2]

    def _read(self) -> dict[Any, _Lists]:
        if self._lists:
            return self._lists
        found, types = self._graph.in_edges(torch.arange(self._graph.num_nodes)), self._graph._types
        row, counts = torch.from_numpy(found.sources), torch.from_numpy(found.counts)
        if len(row) != self._graph.num_edges:
            raise InputError(
                f"this machine has {len(row)} of the graph's {self._graph.num_edges} edges",
                'PyG\'s samplers need all of them: load(..., replicate="on"), or take strata.NeighborLoader.',
            )
        edge_ids = None if found.edge_ids is None else torch.from_numpy(found.edge_ids)
        if types is None or edge_ids is None:
            self._lists[None] = row, _ends_of(counts), edge_ids
            return self._lists
        destinations = torch.arange(len(counts)).repeat_interleave(counts)
        relations = torch.bucketize(edge_ids, torch.tensor(types.edge_offsets[1:]), right=True)
        firsts = dict(zip(types.node_types, types.node_offsets))
        for number, edge in enumerate(types.edge_types):
            own = (relations == number).nonzero().view(-1)
            degrees = torch.bincount(destinations[own] - firsts[edge[2]], minlength=types.ends(edge)[1])
            self._lists[edge] = row[own] - firsts[edge[0]], _ends_of(degrees), edge_ids[own] - types.edge_offsets[number]
        return self._lists

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        lists = self._read().get(edge_attr.edge_type) if edge_attr.layout == EdgeLayout.CSC else None
        return None if lists is None else (lists[0], lists[1])

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise _read_only()

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise _read_only()

    def __reduce__(self) -> Any:
        raise not_for_other_processes("a graph store")


def _ends_of(counts: Tensor) -> Tensor:
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


def _read_only() -> InputError:
    return InputError("a store of a Strata graph cannot be written", "Make another graph: strata.from_tensors(), strata.load().")
