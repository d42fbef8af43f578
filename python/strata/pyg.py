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

from strata._indices import rows_of
from strata._process import not_for_other_processes, process
from strata.errors import InputError
from strata.graph import Features, Graph, Labels, require_graph

if TYPE_CHECKING:
    from torch import Tensor


def stores_of(graph: Graph) -> tuple[FeatureStore, GraphStore]:
    """The data that PyG's loaders take."""
    require_graph(graph)
    return FeatureStore(graph), GraphStore(graph)


class FeatureStore(pyg_data.FeatureStore):  # type: ignore[misc]  # PyG has no types
    """Rows of a graph: "x" float32 [n, num_features], and on one machine "y" of graphs with labels, as graph.labels gives them.

    Tensors lie on this process's device. Reading is collective if the run has several machines. Nothing can be written. The
    group's name is None: there is one type of nodes.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """The attributes of "x" and "y", as far as the graph has them."""
        return [TensorAttr(None, name) for name in self._columns()]

    def _columns(self) -> dict[str, tuple[int, ...]]:
        """The columns of each tensor per node."""
        core = self._graph._core
        columns: dict[str, tuple[int, ...]] = {}
        if core.num_features > 0:
            columns["x"] = (core.num_features,)
        if core.has_labels and process().num_machines == 1:
            columns["y"] = (core.num_classes,) if core.multi_label else ()
        return columns

    def _knows(self, attr: TensorAttr) -> bool:
        return attr.group_name is None and attr.attr_name in self._columns()

    def _get_tensor(self, attr: TensorAttr) -> Tensor:
        if not self._knows(attr):
            raise KeyError(f"no tensor {attr.attr_name!r} of {attr.group_name!r}; there are {list(self._columns())} of None")
        rows: Features | Labels = self._graph.features if attr.attr_name == "x" else self._graph.labels
        return rows[slice(None) if attr.index is None else attr.index]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        if not self._knows(attr):
            return None
        nodes = self._graph.num_nodes
        rows = (nodes,) if attr.index is None else rows_of(attr.index, nodes, "nodes").shape
        return (*rows, *self._columns()[attr.attr_name])

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise _read_only()

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise _read_only()

    def __reduce__(self) -> Any:
        raise not_for_other_processes("a feature store")


class GraphStore(pyg_data.GraphStore):  # type: ignore[misc]
    """The edges of a graph, of one type whose name is None, as PyG's samplers take them: int64 lists of in-neighbors in host memory.

    They are copied when they are first asked for, and need all of the graph's structure on this machine. e_id of PyG's batches
    are the graph's ids of edges, where it has any. Nothing can be written.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        self._lists: tuple[Tensor, Tensor, Tensor | None] | None = None

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The attributes of the one type of edges, as lists of in-neighbors."""
        nodes = self._graph.num_nodes
        return [EdgeAttr(None, EdgeLayout.CSC, is_sorted=True, size=(nodes, nodes))]

    def csc(self, edge_types: Any = None, store: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:
        """(row int64 [E], colptr int64 [N + 1], ids of edges int64 [E] or None)."""
        if self._lists is None:
            self._lists = self._read()
        return self._lists

    def _read(self) -> tuple[Tensor, Tensor, Tensor | None]:
        found = self._graph.in_edges(torch.arange(self._graph.num_nodes))
        row = torch.from_numpy(found.sources)
        if len(row) != self._graph.num_edges:
            raise InputError(
                f"this machine has {len(row)} of the graph's {self._graph.num_edges} edges",
                'PyG\'s samplers need all of them: load(..., replicate="on"), or take strata.NeighborLoader.',
            )
        colptr = torch.zeros(self._graph.num_nodes + 1, dtype=torch.int64)
        torch.cumsum(torch.from_numpy(found.counts), 0, out=colptr[1:])
        return row, colptr, None if found.edge_ids is None else torch.from_numpy(found.edge_ids)

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        if edge_attr.edge_type is not None or edge_attr.layout != EdgeLayout.CSC:
            return None
        row, colptr, _ = self.csc()
        return row, colptr

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise _read_only()

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise _read_only()

    def __reduce__(self) -> Any:
        raise not_for_other_processes("a graph store")


def _read_only() -> InputError:
    return InputError("a store of a Strata graph cannot be written", "Make another graph: strata.from_tensors(), strata.load().")
