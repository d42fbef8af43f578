# SPDX-License-Identifier: Apache-2.0
"""Graph isomorphism networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from strata.errors import InputError
from strata.nn._inputs import Features, check_others, inputs_of
from strata.nn._linear import reset_module
from strata.nn.edges import Edges
from strata.nn.sage import sum_of_neighbors


class GINConv(torch.nn.Module):
    """torch_geometric.nn.GINConv: nn(sum of the in-neighbors + (1 + eps) x).

    Args:
        nn: maps [N, in_channels] to [N, out_channels].
        eps: its first value.
        train_eps: whether eps is a parameter.
    """

    eps: Tensor

    def __init__(self, nn: torch.nn.Module, eps: float = 0.0, train_eps: bool = False, **others: Any) -> None:
        super().__init__()
        check_others("GINConv", others)
        if not callable(nn):
            raise InputError(f"GINConv(nn={nn!r}) is not possible", "Give a torch.nn.Module.")
        self.nn = nn
        self.initial_eps = eps
        value = torch.full((1,), float(eps))
        if train_eps:
            self.eps = torch.nn.Parameter(value)
        else:
            self.register_buffer("eps", value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as torch_geometric's layer does."""
        if isinstance(self.nn, torch.nn.Module):
            reset_module(self.nn)
        with torch.no_grad():
            self.eps.fill_(self.initial_eps)

    def forward(self, x: Features, edge_index: Edges, size: tuple[int, int] | None = None) -> Tensor:
        """[destinations, out_channels]; see strata.nn for x and edge_index."""
        inputs = inputs_of("GINConv", x, edge_index, size)
        out, x_dst = sum_of_neighbors(inputs.x_src, inputs.lists), inputs.x_dst
        if x_dst is not None:
            out = out + (1 + self.eps).to(x_dst.dtype) * x_dst
        mapped: Tensor = self.nn(out)
        return mapped
