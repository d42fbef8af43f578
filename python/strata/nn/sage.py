# SPDX-License-Identifier: Apache-2.0
"""GraphSAGE."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from strata.nn import ops
from strata.nn._inputs import Features, check_channels, check_others, inputs_of, needs_grad, refuse
from strata.nn.edges import EdgeLists, Edges


def sum_of_neighbors(x: Tensor, lists: EdgeLists, row_scale: Tensor | None = None) -> Tensor:
    """[num_dst, F] sums of the rows of the in-neighbors."""
    back = lists.out_lists() if needs_grad(x) else (None, None)
    out: Tensor = ops.sum_over_edges(x, lists.indptr, lists.indices, None, row_scale, None, None, *back, None)
    return out


def max_of_neighbors(x: Tensor, lists: EdgeLists) -> Tensor:
    """[num_dst, F] largest values of the in-neighbors, 0 without any."""
    back = lists.out_lists() if needs_grad(x) else (None, None)
    out: Tensor = ops.max_over_edges(x.float(), lists.indptr, lists.indices, *back)[0]
    return out.to(x.dtype)


def _is_plain(linear: torch.nn.Linear) -> bool:
    """Whether a call of it is a product with its weight, and nothing more."""
    hooked = linear._forward_hooks or linear._forward_pre_hooks or linear._backward_hooks or linear._backward_pre_hooks
    return type(linear) is torch.nn.Linear and not hooked


class SAGEConv(torch.nn.Module):
    """torch_geometric.nn.SAGEConv: lin_l(aggregate of the in-neighbors) + lin_r(x).

    Args:
        in_channels: columns of x, or (of x_src, of x_dst).
        out_channels: columns of the result.
        aggr: "mean", "sum" (or "add"), "max". Where neighbors tie for a maximum, the first gets the gradient.
        normalize: whether rows of the result are divided by their length.
        root_weight: whether there is lin_r.
        project: refused.
        bias: whether lin_l has a bias.
        relu_input: whether the layer takes relu(x) for x. ReLU between two layers, as the second one's relu_input, costs no pass
            over the rows, neither forward nor backward; torch_geometric's layer has no such argument.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        aggr: str = "mean",
        normalize: bool = False,
        root_weight: bool = True,
        project: bool = False,
        bias: bool = True,
        *,
        relu_input: bool = False,
        **others: Any,
    ) -> None:
        super().__init__()
        check_channels("SAGEConv", "in_channels", in_channels)
        check_channels("SAGEConv", "out_channels", out_channels)
        if aggr not in ("mean", "sum", "add", "max"):
            raise refuse("SAGEConv", "aggr", aggr, 'Choose "mean", "sum" or "max".')
        if project:
            raise refuse("SAGEConv", "project", project, "Map x by a torch.nn.Linear and relu() before the layer.")
        check_others("SAGEConv", others)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.aggr = aggr
        self.normalize = normalize
        self.root_weight = root_weight
        self.project = project
        self.relu_input = relu_input
        of_src, of_dst = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        self.lin_l = torch.nn.Linear(of_src, out_channels, bias=bias)
        if root_weight:
            self.lin_r = torch.nn.Linear(of_dst, out_channels, bias=False)

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as torch_geometric's layer does."""
        self.lin_l.reset_parameters()
        if self.root_weight:
            self.lin_r.reset_parameters()

    def forward(self, x: Features, edge_index: Edges, size: tuple[int, int] | None = None) -> Tensor:
        """[destinations, out_channels]; see strata.nn for x and edge_index."""
        inputs = inputs_of("SAGEConv", x, edge_index, size, self.in_channels)
        if inputs.shared and self._joins():
            out = self._joined(inputs.x_src, inputs.lists)
        else:
            x_src, x_dst = inputs.x_src, inputs.x_dst
            if self.relu_input:
                x_src, x_dst = x_src.relu(), None if x_dst is None else x_dst.relu()
            out = self.lin_l(self._aggregate(x_src, inputs.lists))
            if self.root_weight and x_dst is not None:
                out = out + self.lin_r(x_dst)
        return torch.nn.functional.normalize(out, p=2.0, dim=-1) if self.normalize else out

    def _joins(self) -> bool:
        return self.root_weight and self.aggr != "max" and _is_plain(self.lin_l) and _is_plain(self.lin_r)

    def _joined(self, x: Tensor, lists: EdgeLists) -> Tensor:
        """Both products as one, which reads and writes rows once."""
        back = lists.out_lists() if needs_grad(x) else (None, None)
        traced = torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type)
        layer = None if traced else ops.joined_layer()
        if layer is None:
            x = x.relu() if self.relu_input else x
            joined = ops.join_sums(x, lists.indptr, lists.indices, self._row_scale(lists), *back)
            weight = torch.cat([self.lin_l.weight, self.lin_r.weight], dim=1)
            return torch.nn.functional.linear(joined, weight, self.lin_l.bias)
        weights = self.lin_l.weight, self.lin_r.weight, self.lin_l.bias
        out: Tensor = layer(x, *weights, lists.indptr, lists.indices, *back, self.aggr == "mean", self.relu_input)
        return out

    def _row_scale(self, lists: EdgeLists) -> Tensor | None:
        return lists.inverse_counts() if self.aggr == "mean" else None

    def _aggregate(self, x: Tensor, lists: EdgeLists) -> Tensor:
        if self.aggr == "max":
            return max_of_neighbors(x, lists)
        return sum_of_neighbors(x, lists, self._row_scale(lists))

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.in_channels}, {self.out_channels}, aggr={self.aggr}"
