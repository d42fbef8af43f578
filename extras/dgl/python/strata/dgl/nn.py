# SPDX-License-Identifier: Apache-2.0
"""Layers with DGL's arguments and its order, layer(block, x), on Strata's kernels.

    import strata.dgl.nn as dglnn           # instead of dgl.nn

    layer = dglnn.SAGEConv(100, 256, "mean")
    x = layer(block, x)                     # x [num_src, F]; or (x_src, x_dst)

They take blocks and graphs of strata.dgl, and DGL's own. Parameters of SAGEConv, GATConv and GINConv are those of strata.nn's layers
(which are torch_geometric's), those of GraphConv are DGL's. What a layer cannot do is refused with strata.InputError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

import torch
from torch import Tensor

from strata import nn
from strata.batches import Block
from strata.errors import InputError
from strata.nn import EdgeLists, ops
from strata.nn._inputs import Features, check_channels, inputs_of, needs_grad, refuse
from strata.nn._linear import reset_glorot

__all__ = ["GATConv", "GINConv", "GraphConv", "HeteroGraphConv", "SAGEConv"]

Activation = Optional[Callable[[Tensor], Tensor]]


def _edges_of(layer: str, graph: Any, feat: Features) -> Block | EdgeLists:
    """Those of a block, or of anything else that has DGL's names, on the device of the features."""
    if isinstance(graph, (Block, EdgeLists)):
        return graph
    if not hasattr(graph, "edges") or not hasattr(graph, "num_nodes"):
        raise TypeError(f"{layer}: the graph is {type(graph).__name__}; call the layer as layer(block, x)")
    sizes = (graph.num_src_nodes(), graph.num_dst_nodes()) if graph.is_block else (graph.num_nodes(), graph.num_nodes())
    device = (feat[0] if isinstance(feat, tuple) else feat).device
    return EdgeLists.of_edge_index(torch.stack(graph.edges()).to(device), *sizes)


def _refuse_weights(layer: str, weights: Tensor | None) -> None:
    if weights is not None:
        raise InputError(f"{layer}: edge_weight is not possible", "strata.nn.GCNConv takes weights of edges.")


def _require_in_edges(layer: str, edges: Block | EdgeLists) -> None:
    if not bool((edges.indptr.diff() > 0).all()):
        raise InputError(
            f"{layer}: there are nodes without in-edges, whose result would be 0",
            "Add self-loops to the graph, or make the layer with allow_zero_in_degree=True.",
        )


class _Around(torch.nn.Module):
    """What DGL's layers do before and after: dropout of features, normalization, activation."""

    def __init__(self, feat_drop: float = 0.0, norm: Activation = None, activation: Activation = None) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(feat_drop)
        self.norm = norm
        self.activation = activation

    def before(self, feat: Features) -> Features:
        if isinstance(feat, (tuple, list)):
            return self.dropout(feat[0]), None if feat[1] is None else self.dropout(feat[1])
        dropped: Tensor = self.dropout(feat)
        return dropped

    def after(self, out: Tensor) -> Tensor:
        for function in (self.activation, self.norm):
            out = out if function is None else function(out)
        return out


class SAGEConv(nn.SAGEConv):
    """dgl.nn.SAGEConv with aggregator_type="mean": the map of the in-neighbors' mean, that of the node itself, and a bias.

    Args:
        in_feats: columns of x, or (of x_src, of x_dst).
        out_feats: columns of the result.
        aggregator_type: only "mean".
        feat_drop: probability with which a feature is dropped in training.
        bias, norm, activation: as DGL's; the activation comes before norm.
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        aggregator_type: str = "mean",
        feat_drop: float = 0.0,
        bias: bool = True,
        norm: Activation = None,
        activation: Activation = None,
    ) -> None:
        if aggregator_type != "mean":
            raise refuse(
                "SAGEConv", "aggregator_type", aggregator_type, 'Choose "mean", or take strata.nn.SAGEConv(aggr="max").'
            )
        super().__init__(in_feats, out_feats, bias=bias)
        self.around = _Around(feat_drop, norm, activation)

    def forward(self, graph: Any, feat: Features, edge_weight: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """[destinations, out_feats]."""
        edges = _edges_of("SAGEConv", graph, feat)
        _refuse_weights("SAGEConv", edge_weight)
        return self.around.after(super().forward(self.around.before(feat), edges))


class GATConv(nn.GATConv):
    """dgl.nn.GATConv: heads that weigh the in-neighbors by attention; no self-loops are added.

    Args:
        in_feats: columns of x; or (of x_src, of x_dst), which then have a map each.
        out_feats: columns of a head.
        num_heads: their number.
        feat_drop, attn_drop: probabilities of dropping features and neighbors in training.
        negative_slope, activation, bias: as DGL's.
        residual: whether a map of x is added, also where DGL adds x itself.
        allow_zero_in_degree: whether nodes may have no in-edges; their result is then the bias.
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = False,
        activation: Activation = None,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
    ) -> None:
        options = {"negative_slope": negative_slope, "dropout": attn_drop, "bias": bias, "residual": residual}
        super().__init__(in_feats, out_feats, num_heads, add_self_loops=False, **options)  # type: ignore[arg-type]
        self.allow_zero_in_degree = allow_zero_in_degree
        self.around = _Around(feat_drop, activation=activation)

    def forward(self, graph: Any, feat: Features, edge_weight: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """[destinations, num_heads, out_feats]."""
        edges = _edges_of("GATConv", graph, feat)
        _refuse_weights("GATConv", edge_weight)
        if not self.allow_zero_in_degree:
            _require_in_edges("GATConv", edges)
        out = super().forward(self.around.before(feat), edges)
        return self.around.after(out.view(-1, self.heads, self.out_channels))


class GINConv(nn.GINConv):
    """dgl.nn.GINConv with aggregator_type="sum": apply_func(sum of the in-neighbors + (1 + eps) x).

    Args:
        apply_func: maps [N, in_feats] to [N, out_feats]; None: nothing is mapped. Its parameters are drawn anew.
        aggregator_type: only "sum".
        init_eps, learn_eps: the first value of eps, and whether it is a parameter.
        activation: of the result.
    """

    def __init__(
        self,
        apply_func: torch.nn.Module | None = None,
        aggregator_type: str = "sum",
        init_eps: float = 0.0,
        learn_eps: bool = False,
        activation: Activation = None,
    ) -> None:
        if aggregator_type != "sum":
            raise refuse("GINConv", "aggregator_type", aggregator_type, 'Choose "sum".')
        super().__init__(torch.nn.Identity() if apply_func is None else apply_func, init_eps, learn_eps)
        self.around = _Around(activation=activation)

    def forward(self, graph: Any, feat: Features, edge_weight: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """[destinations, out_feats]."""
        edges = _edges_of("GINConv", graph, feat)
        _refuse_weights("GINConv", edge_weight)
        return self.around.after(super().forward(feat, edges))


class GraphConv(torch.nn.Module):
    """dgl.nn.GraphConv: sums of the in-neighbors, scaled by degrees in the block, times a matrix; no self-loops are added.

    Args:
        in_feats, out_feats: columns of x and of the result.
        norm: "both", "right" (the mean of the in-neighbors), "left", or "none".
        weight: only True.
        bias, activation: as DGL's.
        allow_zero_in_degree: whether nodes may have no in-edges; their result is then the bias.
    """

    bias: Tensor | None

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        norm: str = "both",
        weight: bool = True,
        bias: bool = True,
        activation: Activation = None,
        allow_zero_in_degree: bool = False,
    ) -> None:
        super().__init__()
        check_channels("GraphConv", "in_feats", in_feats)
        check_channels("GraphConv", "out_feats", out_feats)
        if norm not in ("both", "right", "left", "none"):
            raise refuse("GraphConv", "norm", norm, 'Choose "both", "right", "left" or "none".')
        if not weight:
            raise refuse("GraphConv", "weight", weight, "Leave it out: the layer has a matrix of its own.")
        self.norm = norm
        self.activation = activation
        self.allow_zero_in_degree = allow_zero_in_degree
        self.weight = torch.nn.Parameter(torch.empty(in_feats, out_feats))
        self.register_parameter("bias", torch.nn.Parameter(torch.zeros(out_feats)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the matrix anew, and makes the bias 0."""
        reset_glorot(self.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(self, graph: Any, feat: Features, edge_weight: Tensor | None = None) -> Tensor:
        """[destinations, out_feats]."""
        edges = _edges_of("GraphConv", graph, feat)
        _refuse_weights("GraphConv", edge_weight)
        if not self.allow_zero_in_degree:
            _require_in_edges("GraphConv", edges)
        inputs = inputs_of("GraphConv", feat, edges, columns=self.weight.shape[0])
        x, lists = inputs.x_src @ self.weight, inputs.lists
        back = lists.out_lists() if needs_grad(x) else (None, None)
        row, col = self._scales(lists)
        out: Tensor = ops.sum_over_edges(x, lists.indptr, lists.indices, None, row, col, None, *back, None)
        out = out if self.bias is None else out + self.bias.to(out.dtype)
        return out if self.activation is None else self.activation(out)

    def _scales(self, lists: EdgeLists) -> tuple[Tensor | None, Tensor | None]:
        """Of destinations, by their in-degrees, and of sources, by their out-degrees."""
        power = 0.5 if self.norm == "both" else 1.0
        row = col = None
        if self.norm in ("both", "right"):
            row = lists.counts().float().clamp(min=1) ** -power
        if self.norm in ("both", "left"):
            col = torch.bincount(lists.indices, minlength=lists.num_src).float().clamp(min=1) ** -power
        return row, col


class HeteroGraphConv(torch.nn.Module):
    """dgl.nn.HeteroGraphConv: a layer for each name of relations, whose results for a type of nodes are joined.

        layer = HeteroGraphConv({"writes": SAGEConv(64, 64), "cites": SAGEConv(64, 64)}, aggregate="sum")
        x = layer(block, x)                     # {type: rows of the sources} to {type: rows of the destinations}

    Layers are called one after the other. strata.nn.HeteroConv, on the same blocks, computes all relations at once.

    Args:
        mods: a layer for each name, or triple, of relations; those without one are left out.
        aggregate: "sum", "mean", "max", "min" or "stack"; or a function of the list of results and the type.
    """

    def __init__(self, mods: Mapping[Any, torch.nn.Module], aggregate: Any = "sum") -> None:
        super().__init__()
        if not callable(aggregate) and aggregate not in _JOINED:
            raise refuse("HeteroGraphConv", "aggregate", aggregate, f"Choose one of {', '.join(_JOINED)}, or give a function.")
        self.mods = torch.nn.ModuleDict({_name_of_relation(key): layer for key, layer in mods.items()})
        self.aggregate = aggregate

    def forward(self, graph: Any, inputs: Any, mod_args: Any = None, mod_kwargs: Any = None) -> dict[str, Tensor]:
        """Rows of the types that a relation with a layer goes to. `inputs` are {type: rows}, or a pair of them."""
        if not hasattr(graph, "canonical_etypes"):
            raise InputError(
                "HeteroGraphConv: the block has one type of nodes", "Call a layer of one relation: SAGEConv(...)(block, x)."
            )
        src, dst = inputs if isinstance(inputs, tuple) else (inputs, None)
        found: dict[str, list[Tensor]] = {}
        for kind in graph.canonical_etypes:
            key = _name_of_relation(kind) if _name_of_relation(kind) in self.mods else kind[1]
            ends = dst if dst is not None else src
            if key not in self.mods or kind[0] not in src or kind[2] not in ends:
                continue
            of_dst = ends[kind[2]] if dst is not None else ends[kind[2]][: graph.num_dst_nodes(kind[2])]
            options = (mod_args or {}).get(kind[1], ()), (mod_kwargs or {}).get(kind[1], {})
            out = self.mods[key](graph[kind], (src[kind[0]], of_dst), *options[0], **options[1])
            found.setdefault(kind[2], []).append(out)
        if callable(self.aggregate):
            return {kind: self.aggregate(rows, kind) for kind, rows in found.items()}
        return {
            kind: _JOINED[self.aggregate](torch.stack(rows, dim=1 if self.aggregate == "stack" else 0))
            for kind, rows in found.items()
        }


_JOINED: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda rows: rows.sum(0),
    "mean": lambda rows: rows.mean(0),
    "max": lambda rows: rows.max(0).values,
    "min": lambda rows: rows.min(0).values,
    "stack": lambda rows: rows,
}


def _name_of_relation(key: Any) -> str:
    """As a name of modules may be."""
    return key if isinstance(key, str) else "__".join(key)
