# SPDX-License-Identifier: Apache-2.0
"""The two models of bench.py, with the layers of strata.nn or PyTorch Geometric."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import dropout, elu, linear

import strata.dgs


class Layer(NamedTuple):
    """The sampled edges of one layer for PyTorch Geometric: positions among its sources, of which the first are its destinations."""

    sources: torch.Tensor
    destinations: torch.Tensor
    num_src: int
    num_dst: int

    @classmethod
    def of_lists(cls, lists: Any) -> Layer:
        """Of an EdgeLists of strata.nn."""
        rows = torch.arange(lists.num_dst, device=lists.indptr.device)
        destinations = torch.repeat_interleave(rows, lists.indptr.diff(), output_size=lists.num_edges)
        return cls(lists.indices.long(), destinations, lists.num_src, lists.num_dst)


#: Of (convolution, rows, edges of its layer).
Apply = Callable[[Any, torch.Tensor, Any], torch.Tensor]


def apply_strata(conv: Any, x: torch.Tensor, lists: Any) -> torch.Tensor:
    out: torch.Tensor = conv(x, lists)
    return out


def apply_pyg(conv: Any, x: torch.Tensor, layer: Layer) -> torch.Tensor:
    edge_index = torch.stack([layer.sources, layer.destinations])
    out: torch.Tensor = conv((x, x[: layer.num_dst]), edge_index, size=(layer.num_src, layer.num_dst))
    return out


def first_by_id(conv: Any, table: torch.Tensor, lists: Any) -> torch.Tensor:
    """strata.nn's SAGEConv of rows that are read where they lie; see strata.dgs.sample_blocks."""
    weight = torch.cat([conv.lin_l.weight, conv.lin_r.weight], dim=1)
    return linear(strata.dgs.mean_and_own_rows(table, lists), weight, conv.lin_l.bias)


class Sage(torch.nn.Module):
    """Without `x`, all nodes' rows are in `table`, and the first layer's edges are by id. strata.nn's layers apply the ReLU that comes
    before them."""

    def __init__(self, convs: Any, apply: Apply, sizes: Sequence[int]) -> None:
        super().__init__()
        self.apply_layer = apply
        self.has_relu = apply is apply_pyg
        inner = {} if self.has_relu else {"relu_input": True}
        first, *others = zip(sizes, sizes[1:])
        self.layers = torch.nn.ModuleList([convs.SAGEConv(*first), *(convs.SAGEConv(*pair, **inner) for pair in others)])

    def forward(self, x: torch.Tensor | None, layers: Sequence[Any], table: torch.Tensor | None = None) -> torch.Tensor:
        first, *others = self.layers
        if x is None:
            assert table is not None
            x = first_by_id(first, table, layers[0])
        else:
            x = self.apply_layer(first, x, layers[0])
        for conv, layer in zip(others, layers[1:]):
            x = dropout(x.relu_() if self.has_relu else x, 0.5, self.training)
            x = self.apply_layer(conv, x, layer)
        return x


class Gat(torch.nn.Module):
    """Residual connections in all layers but the first; the last one gives the mean of its heads."""

    def __init__(self, convs: Any, apply: Apply, sizes: Sequence[int], heads: Sequence[int]) -> None:
        super().__init__()
        self.apply_layer = apply
        last = len(sizes) - 2
        columns = [sizes[0], *(size * count for size, count in zip(sizes[1:-1], heads))]
        self.layers = torch.nn.ModuleList(
            convs.GATConv(
                columns[i], sizes[i + 1], heads=heads[i], concat=i < last, residual=i > 0, add_self_loops=False
            )
            for i in range(last + 1)
        )

    def forward(self, x: torch.Tensor, layers: Sequence[Any], table: None = None) -> torch.Tensor:
        for i, (conv, layer) in enumerate(zip(self.layers, layers)):
            x = self.apply_layer(conv, x, layer)
            if i + 1 < len(self.layers):
                x = elu(x)
        return x


def make_model(name: str, layers: str, num_features: int, num_classes: int, depth: int) -> torch.nn.Module:
    convs = importlib.import_module("strata.nn" if layers == "strata" else "torch_geometric.nn")
    apply: Apply = apply_strata if layers == "strata" else apply_pyg
    if name == "graphsage":
        return Sage(convs, apply, [num_features, *[256] * (depth - 1), num_classes])
    return Gat(convs, apply, [num_features, *[32] * (depth - 1), num_classes], [8] * depth)
