# SPDX-License-Identifier: Apache-2.0
"""Attributes of batches that a graph's own memory does not hold: rows of arrays that the graph was made with."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from strata._indices import as_tensor
from strata.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch_geometric.data import Data

# Facts that batches have about themselves.
RESERVED = frozenset(
    {"edge_index", "adj_t", "n_id", "e_id", "input_id", "original_ids", "batch_size", "num_nodes", "num_sampled_nodes"}
    | {"num_sampled_edges", "num_global_seeds", "loss_scale", "sum_scale", "y"}
)
MOST_CLASSES = 100_000  # as strata-partition takes them


class HeldRows:
    """An array with a row per node, or per edge: along dimension `dim`. A view of the array, which is copied nowhere."""

    def __init__(self, values: Any, dim: int = 0) -> None:
        self.values = _view_of(values)
        self.dim = dim

    def __len__(self) -> int:
        return self.values.size(self.dim) if self.values.dim() else 0

    def __getitem__(self, ids: torch.Tensor) -> torch.Tensor:
        """The rows of these ids, in the array's own type, on the device of the ids. They are read where the array lies."""
        return self.values.index_select(self.dim, ids.to(self.values.device)).to(ids.device)


def _view_of(values: Any) -> torch.Tensor:
    """The same memory as a tensor, also of an array that can only be read, such as a mapped file: rows are not written."""
    import numpy
    import torch

    if not isinstance(values, numpy.ndarray) or values.flags.writeable or not values.flags.c_contiguous:
        return as_tensor(values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, that such a tensor must not be written
        return torch.from_numpy(values)


@dataclasses.dataclass(frozen=True)
class Attributes:
    """Arrays by the names that they have in a batch. Each rank has those that it was given itself."""

    nodes: Mapping[str, HeldRows] = dataclasses.field(default_factory=dict)
    edges: Mapping[str, HeldRows] = dataclasses.field(default_factory=dict)
    whole: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the graph: in every batch as they are
    targets: HeldRows | None = None  # y of nodes, where it is no class

    def check(self, num_nodes: int, num_edges: int, has_features: bool) -> None:
        """Refuses names that batches need themselves, and other numbers of rows than the graph has."""
        for option, of, rows, what in (
            ("node_attrs", self.nodes, num_nodes, "nodes"),
            ("edge_attrs", self.edges, num_edges, "edges"),
        ):
            for name, values in of.items():
                if name in RESERVED:
                    raise InputError(f"{option} has {name!r}, which batches have themselves", "Give it another name.")
                if name == "x" and has_features:
                    raise InputError("x is given twice, as features and in node_attrs", "Give one of them another name.")
                if len(values) != rows:
                    raise InputError(f"{name} has {len(values)} rows for {rows} {what}", f"Give one row for each of the {what}.")
        if self.targets is not None and len(self.targets) != num_nodes:
            raise InputError(f"y has {len(self.targets)} rows for {num_nodes} nodes", "Give one row per node.")

    def complete(self, batch: Data) -> None:
        """Gives a batch the rows of its n_id and e_id."""
        for name, value in self.whole.items():
            batch[name] = value
        for name, rows in self.nodes.items():
            batch[name] = rows[batch.n_id]
        if "e_id" in batch:
            for name, rows in self.edges.items():
                batch[name] = rows[batch.e_id]


def are_targets(y: Any) -> bool:
    """Whether an array of NumPy holds numbers to predict, which are no classes: -1 and nan stand for a missing class."""
    import numpy

    if y.dtype.kind != "f" or y.ndim not in (1, 2):
        return False
    known = y[~numpy.isnan(y)]
    if y.ndim == 2 and y.shape[1] > 1:
        return bool((~numpy.isin(known, (-1, 0, 1))).any())
    return bool(((known < -1) | (known >= MOST_CLASSES) | (known != numpy.floor(known))).any())
