# SPDX-License-Identifier: Apache-2.0
"""The two models of bench.py, with the layers of strata.nn or PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import dropout, elu


class Layer(NamedTuple):
    """The sampled edges of one layer: positions among its sources, of which the first are its destinations. Edges come in the
    order of their destinations."""

    sources: torch.Tensor
    destinations: torch.Tensor
    num_src: int
    num_dst: int

    def edge_index(self) -> torch.Tensor:
        return torch.stack([self.sources, self.destinations])

    def lists(self) -> Any:
        """For strata.nn, which need not sort edges that are in order."""
        from strata.nn import EdgeLists

        ends = torch.arange(self.num_dst + 1, dtype=self.destinations.dtype, device=self.destinations.device)
        return EdgeLists(self.num_src, self.num_dst, torch.searchsorted(self.destinations, ends), self.sources.int())


EdgesOf = Callable[[Layer], Any]


class Sage(torch.nn.Module):
    def __init__(self, convs: Any, edges_of: EdgesOf, sizes: Sequence[int]) -> None:
        super().__init__()
        self.edges_of = edges_of
        self.layers = torch.nn.ModuleList(convs.SAGEConv(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x: torch.Tensor, layers: Sequence[Layer]) -> torch.Tensor:
        for i, (conv, layer) in enumerate(zip(self.layers, layers)):
            x = conv((x, x[: layer.num_dst]), self.edges_of(layer), size=(layer.num_src, layer.num_dst))
            if i + 1 < len(self.layers):
                x = dropout(x.relu(), 0.5, self.training)
        return x


class Gat(torch.nn.Module):
    """Residual connections in all layers but the first; the last one gives the mean of its heads."""

    def __init__(self, convs: Any, edges_of: EdgesOf, sizes: Sequence[int], heads: Sequence[int]) -> None:
        super().__init__()
        self.edges_of = edges_of
        last = len(sizes) - 2
        columns = [sizes[0], *(size * count for size, count in zip(sizes[1:-1], heads))]
        self.layers = torch.nn.ModuleList(
            convs.GATConv(
                columns[i], sizes[i + 1], heads=heads[i], concat=i < last, residual=i > 0, add_self_loops=False
            )
            for i in range(last + 1)
        )

    def forward(self, x: torch.Tensor, layers: Sequence[Layer]) -> torch.Tensor:
        for i, (conv, layer) in enumerate(zip(self.layers, layers)):
            x = conv((x, x[: layer.num_dst]), self.edges_of(layer), size=(layer.num_src, layer.num_dst))
            if i + 1 < len(self.layers):
                x = elu(x)
        return x


def make_model(name: str, layers: str, num_features: int, num_classes: int, depth: int) -> torch.nn.Module:
    if layers == "strata":
        import strata.nn as convs

        edges_of: EdgesOf = Layer.lists
    else:
        import torch_geometric.nn as convs

        edges_of = Layer.edge_index
    if name == "graphsage":
        return Sage(convs, edges_of, [num_features, *[256] * (depth - 1), num_classes])
    return Gat(convs, edges_of, [num_features, *[32] * (depth - 1), num_classes], [8] * depth)
