# SPDX-License-Identifier: Apache-2.0
"""GraphSAGE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def _joined_layer(
    x: Tensor, weight_l: Tensor, weight_r: Tensor, bias: Tensor | None, *edges: Tensor | None
) -> Tensor:
    """Both products as one, which reads and writes rows once. `edges` are the other arguments of ops.join_sums."""
    weight = torch.cat([weight_l, weight_r], dim=1)
    return torch.nn.functional.linear(ops.join_sums(x, *edges), weight, bias)


class _JoinedLayer(torch.autograd.Function):
    """_joined_layer as one node of autograd: several nodes, and the dispatcher, would cost more than their kernels."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight_l: Tensor,
        weight_r: Tensor,
        bias: Tensor | None,
        indptr: Tensor,
        indices: Tensor,
        row_scale: Tensor | None,
        out_indptr: Tensor | None,
        out_indices: Tensor | None,
    ) -> Tensor:
        edges = indptr, indices, row_scale, out_indptr, out_indices
        joined = ops.joined_rows(x, indptr, indices, row_scale)
        weight = torch.cat([weight_l, weight_r], dim=1)
        ctx.save_for_backward(joined, weight, x, weight_l, weight_r, bias, *edges)
        return torch.nn.functional.linear(joined, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        joined, weight, *inputs = ctx.saved_tensors
        wanted, others = ctx.needs_input_grad[:4], (None,) * 5
        if torch.is_grad_enabled():  # gradients of gradients
            return *_differentiable_grads(inputs, wanted, grad), *others
        *_, row_scale, out_indptr, out_indices = inputs
        columns = weight.shape[1] // 2
        of_x = of_l = of_r = of_bias = None
        if wanted[1] or wanted[2]:
            of_l, of_r = (grad.t() @ joined).split(columns, dim=1)
        if wanted[3]:
            of_bias = ops.sum_of_rows(grad) if grad.dtype == torch.float32 else grad.sum(0)
        if wanted[0]:
            of_x = ops.grad_of_joined_rows(grad @ weight, row_scale, out_indptr, out_indices)
        return of_x, of_l, of_r, of_bias, *others


def _differentiable_grads(inputs: Sequence[Any], wanted: Sequence[bool], grad: Tensor) -> Iterator[Tensor | None]:
    of = [tensor for tensor, is_wanted in zip(inputs, wanted) if is_wanted]
    grads = iter(torch.autograd.grad(_joined_layer(*inputs), of, grad, create_graph=True))
    return (next(grads) if is_wanted else None for is_wanted in wanted)


def _is_plain(linear: torch.nn.Linear) -> bool:
    """Whether a call of it is a product with its weight, and nothing more."""
    hooks = linear._forward_hooks, linear._forward_pre_hooks, linear._backward_hooks, linear._backward_pre_hooks
    return type(linear) is torch.nn.Linear and not any(hooks)


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
        of_src, of_dst = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        self.lin_l = torch.nn.Linear(of_src, out_channels, bias=bias)
        if root_weight:
            self.lin_r = torch.nn.Linear(of_dst, out_channels, bias=False)

    def reset_parameters(self) -> None:
        self.lin_l.reset_parameters()
        if self.root_weight:
            self.lin_r.reset_parameters()

    def forward(self, x: Features, edge_index: Edges, size: tuple[int, int] | None = None) -> Tensor:
        """[destinations, out_channels]; see strata.nn for x and edge_index."""
        x_src, x_dst, lists, shared = inputs_of("SAGEConv", x, edge_index, size)
        if shared and self._joins():
            out = self._joined(x_src, lists)
        else:
            out = self.lin_l(self._aggregate(x_src, lists))
            if self.root_weight and x_dst is not None:
                out = out + self.lin_r(x_dst)
        return torch.nn.functional.normalize(out, p=2.0, dim=-1) if self.normalize else out

    def _joins(self) -> bool:
        return self.root_weight and self.aggr != "max" and _is_plain(self.lin_l) and _is_plain(self.lin_r)

    def _joined(self, x: Tensor, lists: EdgeLists) -> Tensor:
        back = lists.out_lists() if needs_grad(x) else (None, None)
        edges = lists.indptr, lists.indices, self._row_scale(lists), *back
        weights = self.lin_l.weight, self.lin_r.weight, self.lin_l.bias
        if torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type):
            return _joined_layer(x, *weights, *edges)
        out: Tensor = _JoinedLayer.apply(x, *weights, *edges)  # type: ignore[no-untyped-call]
        return out

    def _row_scale(self, lists: EdgeLists) -> Tensor | None:
        return lists.inverse_counts() if self.aggr == "mean" else None

    def _aggregate(self, x: Tensor, lists: EdgeLists) -> Tensor:
        if self.aggr == "max":
            return max_of_neighbors(x, lists)
        return sum_of_neighbors(x, lists, self._row_scale(lists))

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, aggr={self.aggr}"
