# SPDX-License-Identifier: Apache-2.0
"""Graph convolutional networks."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from strata.errors import InputError
from strata.nn import ops
from strata.nn._inputs import check_channels, check_others, inputs_of, needs_grad, refuse
from strata.nn._linear import glorot, reset_glorot
from strata.nn.edges import EdgeLists, Edges


class _Scales(NamedTuple):
    """Factors of ops.sum_over_edges; None stands for ones, for `own` for zeros."""

    edge: Tensor | None = None
    row: Tensor | None = None
    col: Tensor | None = None
    own: Tensor | None = None


def _inverse_roots(degrees: Tensor, lists: EdgeLists, of_others: float) -> Tensor:
    """degree^-1/2 of all sources, where only the destinations' degrees are known; 0 where a degree is 0."""
    padded = torch.nn.functional.pad(degrees, (0, lists.num_src - lists.num_dst), value=of_others)
    roots = padded.pow(-0.5)
    return roots.masked_fill(roots == torch.inf, 0.0)


def _counts_by_list(which: Tensor, lists: EdgeLists) -> Tensor:
    """The number of marked edges of each destination, float32 [num_dst]."""
    before = torch.nn.functional.pad(which.cumsum(0), (1, 0))
    return before[lists.indptr].diff().float()


def _last_by_list(which: Tensor, values: Tensor, lists: EdgeLists, default: float) -> Tensor:
    """The value of each destination's last marked edge, float32 [num_dst]."""
    numbers = torch.arange(1, lists.num_edges + 1, device=which.device)
    latest = torch.nn.functional.pad(torch.where(which, numbers, 0), (1, 0)).cummax(0).values[lists.indptr]
    return torch.where(latest[1:] > lists.indptr[:-1], torch.nn.functional.pad(values, (1, 0))[latest[1:]], default)


class GCNConv(torch.nn.Module):
    """torch_geometric.nn.GCNConv: the sum over in-neighbors and the node itself of lin(x_u) / sqrt(d(u) d(v)).

    d is a node's number of in-edges, or the sum of their weights, in the batch, with its loop. On a block the result is
    torch_geometric's for the block's edge_index, of its first num_dst nodes.

    Args:
        in_channels, out_channels: columns of x and of the result.
        improved: whether added loops weigh 2; as in torch_geometric only beside an edge_weight, else they weigh 1.
        cached: refused.
        add_self_loops: None: as `normalize`. A loop that the graph has is replaced.
        normalize: False: the plain, or weighted, sum.
        bias: whether there is a bias.
    """

    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        cached: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        bias: bool = True,
        **others: Any,
    ) -> None:
        super().__init__()
        if isinstance(in_channels, tuple):
            raise refuse("GCNConv", "in_channels", in_channels, "Give one number: it shares its weights among all nodes.")
        check_channels("GCNConv", "in_channels", in_channels)
        check_channels("GCNConv", "out_channels", out_channels)
        if cached:
            raise refuse(
                "GCNConv", "cached", cached, "Batches differ; what belongs to an edge_index is kept as long as it lives."
            )
        if add_self_loops is None:
            add_self_loops = normalize
        if add_self_loops and not normalize:
            raise refuse("GCNConv", "add_self_loops", True, "Loops belong to the normalization: leave normalize=True.")
        check_others("GCNConv", others)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.improved = improved
        self.cached = cached
        self.add_self_loops = add_self_loops
        self.normalize = normalize
        self.lin = glorot(in_channels, out_channels)
        self.register_parameter("bias", torch.nn.Parameter(torch.zeros(out_channels)) if bias else None)

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as torch_geometric's layer does."""
        reset_glorot(self.lin.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, edge_index: Edges, edge_weight: Tensor | None = None) -> Tensor:
        """[destinations, out_channels]; see strata.nn for x and edge_index.

        edge_weight: float32 [E], in the order of edge_index's or the block's edges; without a gradient.
        """
        if isinstance(x, (tuple, list)):
            raise InputError("GCNConv: x is a pair", "Give one x for sources and destinations, or take SAGEConv.")
        inputs = inputs_of("GCNConv", x, edge_index, columns=self.in_channels)
        mapped, lists = self.lin(inputs.x_src), inputs.lists
        x = mapped.float() if mapped.dtype == torch.float16 else mapped  # which autocast gives
        scales = self._scales(lists, edge_weight)
        back: tuple[Tensor | None, ...] = (None, None, None)
        if needs_grad(x):
            back = (*lists.out_lists(), None) if scales.edge is None else self._with_scales(lists.transposed(), scales.edge)
        out: Tensor = ops.sum_over_edges(x, lists.indptr, lists.indices, *scales, *back, self.add_self_loops).to(mapped.dtype)
        return out if self.bias is None else out + self.bias.to(out.dtype)

    @staticmethod
    def _with_scales(transposed: tuple[Tensor, Tensor, Tensor], edge_scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out_indptr, out_indices, origins = transposed
        return out_indptr, out_indices, edge_scale[origins]

    def _check_weights(self, weights: Tensor, lists: EdgeLists) -> Tensor:
        if weights.requires_grad:
            raise InputError("GCNConv: edge_weight requires a gradient, which its kernels do not compute", "Detach it.")
        if weights.dtype != torch.float32 or weights.numel() != lists.num_edges:
            raise InputError(
                f"GCNConv: edge_weight is {weights.dtype} of shape {list(weights.shape)} for {lists.num_edges} edges"
            )
        if weights.device != lists.indptr.device:
            raise InputError(f"GCNConv: edge_weight lies on {weights.device}, edge_index on {lists.indptr.device}")
        return lists.ordered(weights.reshape(-1))

    def _scales(self, lists: EdgeLists, weights: Tensor | None) -> _Scales:
        if weights is None:
            name = f"GCN scales {self.normalize} {self.add_self_loops}"
            return lists.once(name, lambda: self._scales_of(lists, None))
        with torch.no_grad():
            return self._scales_of(lists, self._check_weights(weights, lists))

    def _scales_of(self, lists: EdgeLists, weights: Tensor | None) -> _Scales:
        if not self.normalize:
            return _Scales(edge=weights)
        if not self.add_self_loops:
            roots = _inverse_roots(self._sums(lists, weights), lists, 0.0)
            return _Scales(edge=weights, row=roots[: lists.num_dst], col=roots)
        which = lists.loops()
        if weights is None:
            roots = _inverse_roots(lists.counts() - _counts_by_list(which, lists) + 1, lists, 1.0)
            row = roots[: lists.num_dst]
            return _Scales(row=row, col=roots, own=row * row)
        loop = 2.0 if self.improved else 1.0
        loops = _last_by_list(which, weights, lists, loop)
        roots = _inverse_roots(self._sums(lists, weights) + loops, lists, loop)
        row = roots[: lists.num_dst]
        return _Scales(edge=weights, row=row, col=roots, own=loops * row * row)

    def _sums(self, lists: EdgeLists, weights: Tensor | None) -> Tensor:
        """Sums of the in-edges' weights, without those of loops where they are replaced; float32 [num_dst]."""
        if weights is None:
            return lists.counts()
        ones = torch.ones(lists.num_src, 1, device=weights.device)
        sums: Tensor = ops.sum_over_edges(ones, lists.indptr, lists.indices, weights, *(None,) * 6, self.add_self_loops)
        return sums.squeeze(1)

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.in_channels}, {self.out_channels}"
