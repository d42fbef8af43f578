# SPDX-License-Identifier: Apache-2.0
"""Options that PyG's loaders, or torch's DataLoader, have and Strata's do not: what they ask for is here already, or refused."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from strata._process import process
from strata.errors import InputError

if TYPE_CHECKING:
    from strata.graph import Graph

_WITHOUT_EFFECT = {
    "num_workers",
    "filter_per_worker",
    "persistent_workers",
    "prefetch_factor",
    "pin_memory",
    "pin_memory_device",
    "worker_init_fn",
    "multiprocessing_context",
    "timeout",
    "in_order",
    "is_sorted",
}
_REFUSED = {
    "input_time": "times of nodes are not sampled by",
    "time_attr": "times of nodes are not sampled by",
    "temporal_strategy": "times of nodes are not sampled by",
    "weight_attr": 'weights belong to the graph: load(weights=True) and sampler="weighted"',
    "neighbor_sampler": "derive from strata.NeighborChooser, and give it as sampler",
    "transform_sampler_output": "derive from strata.NeighborChooser, and give it as sampler",
    "generator": "order and choices are keyed: give seed",
    "collate_fn": "change batches where they are taken, as NeighborLoader's transform does",
    "batch_sampler": "give input_nodes in the order of their batches, without shuffle",
}
# Default values; None asks for nothing, too.
_USUAL = {"temporal_strategy": "uniform"}


def check_others(loader: str, others: dict[str, Any]) -> None:
    """Warns once of options that mean nothing here, and refuses what no loader does; values that ask for nothing are taken."""
    for name, value in others.items():
        if name not in _REFUSED and name not in _WITHOUT_EFFECT:
            raise TypeError(f"{loader}() got an unexpected keyword argument {name!r}")
        is_usual = value is None or (name in _USUAL and value == _USUAL[name])
        if name in _REFUSED and not is_usual:
            raise InputError(f"{name} is not possible: {_REFUSED[name]}")
    ignored = [name for name, value in others.items() if name in _WITHOUT_EFFECT and value]
    if ignored:
        warnings.warn(
            f"{', '.join(ignored)} {'has' if len(ignored) == 1 else 'have'} no effect: threads of C++ make batches on this rank's "
            "device while the ones before are trained on, without worker processes",
            stacklevel=3,
        )


def by_weight(sampler: Any, weight_attr: Any) -> str:
    """The sampler that PyG's `weight_attr` stands for: by the weights that the graph was made with, whatever they are called."""
    if not isinstance(weight_attr, str):
        raise TypeError(f"weight_attr is {weight_attr!r}; give a name, such as 'edge_weight'")
    if sampler not in ("uniform", "weighted"):
        raise InputError(f"weight_attr and sampler={sampler!r} both say how neighbors are chosen", "Give one of them.")
    return "weighted"


def check_weights(graph: Graph, name: str) -> None:
    """Refuses the name of an attribute of edges that is not what the graph chooses neighbors by."""
    of_edges = graph._attributes.edges
    if name not in of_edges:
        return
    weights = of_edges.get("edge_weight")
    if weights is None or weights.values.data_ptr() != of_edges[name].values.data_ptr():
        raise InputError(
            f"the graph was made without {name!r} as weights",
            f"Make it with them: from_pyg(data, edge_weight=data.{name}), or from_dgl(graph, edge_weight={name!r}).",
        )


def form_of(subgraph_type: Any, disjoint: bool, others: dict[str, Any]) -> str:
    """The edges that a batch has. PyG has names for that, an enum, and the older directed=False for "induced"."""
    kind = getattr(subgraph_type, "value", subgraph_type)
    if others.pop("directed", None) is False:
        kind = "induced"
    if kind not in ("directional", "bidirectional", "induced"):
        raise InputError(f"subgraph_type={kind!r} is not possible", 'Choose "directional", "bidirectional" or "induced".')
    if kind == "induced" and process().num_machines > 1:
        raise InputError(
            'subgraph_type="induced" is possible on one machine only', 'Others have edges of their own nodes: take "directional".'
        )
    if disjoint:
        raise InputError("disjoint=True is not possible", "Seeds of a batch share the nodes that they have in common.")
    return str(kind)
