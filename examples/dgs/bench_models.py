# SPDX-License-Identifier: Apache-2.0
"""The two models of bench.py, with the layers of strata.nn or PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import elu, linear

import strata.dgs
from strata.nn.ops import sum_of_rows


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


def apply_strata(conv: Any, x: torch.Tensor, lists: Any) -> torch.Tensor:
    return conv(x, lists)


def apply_pyg(conv: Any, x: torch.Tensor, layer: Layer) -> torch.Tensor:
    edge_index = torch.stack([layer.sources, layer.destinations])
    return conv((x, x[: layer.num_dst]), edge_index, size=(layer.num_src, layer.num_dst))


class FirstProduct(torch.autograd.Function):
    """linear() of rows that need no gradient."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows)
        return linear(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        return None, grad.t() @ rows, sum_of_rows(grad)


class ReluAndDropout(torch.autograd.Function):
    """Both in one pass over the rows each way, and one for the mask."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, probability: float) -> torch.Tensor:
        kept = torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - probability)
        mask, ctx.scale = kept.logical_and_(x > 0), 1 / (1 - probability)
        ctx.save_for_backward(mask)
        return torch.ops.aten.native_dropout_backward(x, mask, ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return torch.ops.aten.native_dropout_backward(grad, mask, ctx.scale), None


def first_by_id(conv: Any, table: torch.Tensor, lists: Any) -> torch.Tensor:
    """strata.nn's SAGEConv of rows that are read where they lie; see strata.dgs.sample_blocks."""
    weight = torch.cat([conv.lin_l.weight, conv.lin_r.weight], dim=1)
    return FirstProduct.apply(strata.dgs.mean_and_own_rows(table, lists), weight, conv.lin_l.bias)


class Sage(torch.nn.Module):
    """Without `x`, all nodes' rows are in `table`, and the first layer's edges are by id."""

    def __init__(self, convs: Any, apply: Any, sizes: Sequence[int]) -> None:
        super().__init__()
        self.apply_layer = apply
        self.layers = torch.nn.ModuleList(convs.SAGEConv(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x: torch.Tensor | None, layers: Sequence[Any], table: torch.Tensor | None = None) -> torch.Tensor:
        for i, (conv, layer) in enumerate(zip(self.layers, layers)):
            x = first_by_id(conv, table, layer) if x is None else self.apply_layer(conv, x, layer)
            if i + 1 < len(self.layers):
                x = ReluAndDropout.apply(x, 0.5) if self.training else x.relu()
        return x


class Gat(torch.nn.Module):
    """Residual connections in all layers but the first; the last one gives the mean of its heads."""

    def __init__(self, convs: Any, apply: Any, sizes: Sequence[int], heads: Sequence[int]) -> None:
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
    if layers == "strata":
        import strata.nn as convs

        apply = apply_strata
    else:
        import torch_geometric.nn as convs

        apply = apply_pyg
    if name == "graphsage":
        return Sage(convs, apply, [num_features, *[256] * (depth - 1), num_classes])
    return Gat(convs, apply, [num_features, *[32] * (depth - 1), num_classes], [8] * depth)
