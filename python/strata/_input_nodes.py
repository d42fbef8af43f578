# SPDX-License-Identifier: Apache-2.0
"""The nodes that a loader is given."""

from __future__ import annotations

import warnings
from typing import Any

from strata import _arguments
from strata._arrays import host_array, list_of_ids
from strata.errors import InputError
from strata.graph import Graph, warn_of_mask


def said(graph: Graph, input_nodes: Any) -> Any:
    """What stands for input_nodes that were left out, which are all nodes with PyG."""
    if input_nodes is not ...:
        return input_nodes
    if num_train := len(graph.nodes("train")):
        raise InputError(
            f"input_nodes is left out, and {num_train} of the graph's {graph.num_nodes} nodes are training nodes",
            'Give input_nodes="train" for these, or input_nodes=None for all nodes.',
        )
    return None


def warn_of_no_batches(input_nodes: Any, num_seeds: int, drop_last: bool) -> None:
    if num_seeds:
        why = f"its {num_seeds} input nodes are fewer than a step takes, and drop_last={drop_last}"
    elif isinstance(input_nodes, str):
        why = f"the graph has no nodes of the split {input_nodes!r}; input_nodes takes ids, a mask, or None for all nodes"
    else:
        why = "input_nodes has no nodes"
    warnings.warn(f"a loop over this loader has no batches: {why}", stacklevel=_arguments.caller())


def ids_of(graph: Graph, nodes: Any, original: bool | None = None) -> Any:
    """int64 ids of a list, tensor or mask; None stands for all nodes. `original`: they are the input's numbers."""
    import numpy

    if original is not None:
        _arguments.flag(original, "original")
    if nodes is None:
        return numpy.arange(graph.num_nodes, dtype="int64")
    if isinstance(nodes, tuple) and len(nodes) == 2 and isinstance(nodes[0], (str, tuple)):
        raise InputError(f"input_nodes names the type {nodes[0]!r}", "This graph has one type of nodes: give ids or a mask.")
    array = host_array(nodes, "input_nodes")
    if array.dtype == "uint8":
        raise InputError("input_nodes is of type uint8", "Give ids as int64, or a mask as bool: mask.bool().")
    if array.dtype == bool:
        if array.shape != (graph.num_nodes,):
            raise InputError(f"a mask of shape {array.shape} for {graph.num_nodes} nodes", "Give one truth value per node.")
        array = array.nonzero()[0]
        if original is None:
            warn_of_mask(graph, "input_nodes")
    ids = list_of_ids(array, "input_nodes")
    return graph.ids(ids).numpy() if original else ids
