# SPDX-License-Identifier: Apache-2.0
"""Graphs of several types on their way to files and back."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from strata import _arguments, _core
from strata._arrays import host_array, ids_array, to_torch
from strata._attributes import are_targets
from strata._process import process
from strata._types import EdgeType, OneType, Types
from strata.errors import InputError

if TYPE_CHECKING:
    import torch

    from strata.graph import Graph

TypedGraph = tuple[Mapping[str, OneType], Mapping[EdgeType, OneType], Mapping[EdgeType, Any]]  # as from_types() takes it
_SPLITS = {"train_mask": "train", "val_mask": "valid", "valid_mask": "valid", "test_mask": "test"}
STORED = frozenset({"x", "y", "edge_weight", *_SPLITS})  # attributes that parts hold


def stored_types(core: _core.Graph, has_edge_ids: bool) -> Types | None:
    """The types of a graph that was read, with labels and masks as attributes of its nodes; None: one of each, without a name.

    On several machines no rank has the labels of all nodes: batches then have those of their seeds.
    """
    found = cast(Any, core.types())
    if found is None:
        return None
    if not has_edge_ids:
        raise InputError("batches of a graph of several types name their edges", "Leave edge_ids out.")
    kinds, node_offsets, relations, edge_offsets, feature_cols = found
    attributes: list[dict[str, Any]] = [{} for _ in kinds]
    ranges = list(itertools.pairwise(node_offsets))
    for mask, split in (("train_mask", "train"), ("val_mask", "valid"), ("test_mask", "test")):
        ids = to_torch(core.original_ids(cast(Any, to_torch(core.nodes_of(split)))))
        for rows, (first, end) in zip(attributes, ranges):
            _add_mask(rows, mask, ids[(ids >= first) & (ids < end)] - first, end - first)
    is_whole = process().num_machines == 1
    if core.has_labels and is_whole:
        for rows, (first, end) in zip(attributes, ranges):
            _add_labels(rows, core, first, end)
    nodes = {kind: OneType(end - first, rows) for kind, rows, (first, end) in zip(kinds, attributes, ranges)}
    edges = {tuple(kind): OneType(end - first, {}) for kind, (first, end) in zip(relations, itertools.pairwise(edge_offsets))}
    types = Types(nodes, cast("dict[EdgeType, OneType]", edges), feature_cols)
    types.labels_come_with_seeds = core.has_labels and not is_whole
    return types


def _add_mask(rows: dict[str, Any], name: str, ids: torch.Tensor, count: int) -> None:
    import torch

    if len(ids):
        rows[name] = torch.zeros(count, dtype=torch.bool)
        rows[name][ids] = True


def _add_labels(rows: dict[str, Any], core: _core.Graph, first: int, end: int) -> None:
    import torch

    labels = to_torch(core.labels(cast(Any, to_torch(core.global_ids(cast(Any, torch.arange(first, end)))))))
    if bool((~labels.isnan() if labels.is_floating_point() else labels >= 0).any()):
        rows["y"] = labels


def made_of(graph: Graph) -> TypedGraph:
    """The arguments of from_types() that make a graph of several types in memory. Not collective; on one machine."""
    import torch

    types, nodes = graph._types, torch.arange(graph.num_nodes)
    assert types is not None
    of_nodes = dict(types.nodes)
    if types.x is not None:
        for kind, (first, end) in zip(types.node_types, itertools.pairwise(types.node_offsets)):
            of_nodes[kind] = OneType(end - first, of_nodes[kind].attributes | {"x": types.x[first:end]})
    found = graph.in_edges(nodes)
    assert found.edge_ids is not None
    ends = torch.stack([torch.from_numpy(found.sources), nodes.repeat_interleave(torch.from_numpy(found.counts))])
    edge_ids, order = torch.from_numpy(found.edge_ids).sort()
    ends = ends[:, order]
    borders = torch.searchsorted(edge_ids, torch.tensor(types.edge_offsets)).tolist()  # parts may lack edges of their input
    first_of = dict(zip(types.node_types, types.node_offsets))
    edge_index = {
        kind: ends[:, first:end] - torch.tensor([[first_of[kind[0]]], [first_of[kind[2]]]])
        for kind, (first, end) in zip(types.edge_types, itertools.pairwise(borders))
    }
    return of_nodes, dict(types.edges), edge_index


def arrays_to_store(graph: TypedGraph) -> _core.TypedArrays:
    """What strata-partition takes. A warning names the attributes that parts do not hold."""
    nodes, edges, edge_index = graph
    arrays = _core.TypedArrays()
    arrays.nodes = [(kind, one.size) for kind, one in nodes.items()]
    left = {(str(kind), name) for kind, one in [*nodes.items(), *edges.items()] for name in one.attributes}
    weights = {kind: one.attributes["edge_weight"] for kind, one in edges.items() if "edge_weight" in one.attributes}
    arrays.edges = [
        (kind, ids_array(ends, f"edge_index of {kind}"), host_array(weights[kind], "edge_weight") if kind in weights else None)
        for kind, ends in edge_index.items()
    ]
    left -= {(str(kind), "edge_weight") for kind in weights}
    _take_features(arrays, nodes, left)
    _take_labels(arrays, nodes, left)
    _take_splits(arrays, nodes, left)
    if left:
        named = ", ".join(f"{name} of {kind}" for kind, name in sorted(left))
        warnings.warn(f"parts do not hold {named}", stacklevel=_arguments.caller())
    return arrays


def _of_types(nodes: Mapping[str, OneType], name: str, left: set[tuple[str, str]]) -> dict[str, Any]:
    """Arrays of this name as NumPy's, which are taken out of what is left."""
    found = {kind: host_array(one.attributes[name], name) for kind, one in nodes.items() if name in one.attributes}
    left -= {(kind, name) for kind in found}
    return found


def _take_features(arrays: _core.TypedArrays, nodes: Mapping[str, OneType], left: set[tuple[str, str]]) -> None:
    """Rows of all types in one matrix, narrower ones with zeros at their ends."""
    import numpy

    found = _of_types(nodes, "x", left)
    for kind in [kind for kind, x in found.items() if x.ndim != 2]:
        left.add((kind, "x"))
        del found[kind]
    arrays.feature_cols = [found[kind].shape[1] if kind in found else 0 for kind in nodes]
    if not any(arrays.feature_cols):
        return
    dtype = "float16" if all(x.dtype == "float16" for x in found.values()) else "float32"
    joined = numpy.zeros((sum(one.size for one in nodes.values()), max(arrays.feature_cols)), dtype=dtype)
    first = 0
    for kind, one in nodes.items():
        if kind in found:
            joined[first : first + one.size, : found[kind].shape[1]] = found[kind]
        first += one.size
    arrays.x = joined


def _take_labels(arrays: _core.TypedArrays, nodes: Mapping[str, OneType], left: set[tuple[str, str]]) -> None:
    """Classes of all types, -1 where there is none; or sets of classes, if y of every type that has it has as many columns."""
    import numpy

    found = {kind: y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y for kind, y in _of_types(nodes, "y", left).items()}
    rows = {y.shape[1:] for y in found.values()}
    if not found or len(rows) > 1 or len(shape := rows.pop()) > 1 or any(are_targets(y) for y in found.values()):
        left |= {(kind, "y") for kind in found}
        return
    joined = numpy.full((sum(one.size for one in nodes.values()), *shape), -1, dtype="float32" if shape else "int64")
    first = 0
    for kind, one in nodes.items():
        if kind in found:
            y = found[kind]
            joined[first : first + one.size] = numpy.nan_to_num(y, nan=-1) if y.dtype.kind == "f" else y
        first += one.size
    arrays.y = joined


def _take_splits(arrays: _core.TypedArrays, nodes: Mapping[str, OneType], left: set[tuple[str, str]]) -> None:
    import numpy

    for name, split in _SPLITS.items():
        found, ids, first = _of_types(nodes, name, left), [], 0
        for kind, one in nodes.items():
            if kind in found and found[kind].ndim == 1:
                ids.append(found[kind].nonzero()[0] + first)
            elif kind in found:
                left.add((kind, name))
            first += one.size
        if ids:
            setattr(arrays, split, numpy.concatenate(ids))
