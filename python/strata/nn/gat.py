# SPDX-License-Identifier: Apache-2.0
"""Graph attention networks."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from strata.errors import InputError
from strata.nn import ops
from strata.nn._inputs import Features, check_channels, check_others, inputs_of, needs_grad, refuse
from strata.nn._linear import glorot, reset_glorot
from strata.nn.edges import EdgeLists, Edges


class _Rows(NamedTuple):
    src: Tensor  # [num_src, heads * out_channels]
    dst: Tensor | None  # [num_dst, heads * out_channels]
    shared: bool  # whether dst is the first rows of src


class GATConv(torch.nn.Module):
    """torch_geometric.nn.GATConv: heads that weigh lin(x) of the in-neighbors, and of the node itself, by attention.

    Attention is computed in float32. Dropout drops a head's parallel edges together.

    Args:
        in_channels: columns of x; or (of x_src, of x_dst), which then have a map each.
        out_channels: columns of a head.
        heads: their number.
        concat: whether heads are concatenated; False: their mean.
        negative_slope: of the leaky ReLU.
        dropout: probability in [0, 1) with which a head ignores a neighbor in training.
        add_self_loops: whether nodes attend to themselves, once, whatever loops the graph has.
        edge_dim, fill_value: refused, as there are no features of edges.
        bias: whether there is a bias.
        residual: whether a map of x is added.
    """

    bias: Tensor | None

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: float | Tensor | str = "mean",
        bias: bool = True,
        residual: bool = False,
        **others: Any,
    ) -> None:
        super().__init__()
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels), ("heads", heads)):
            check_channels("GATConv", name, count)
        if not 0 <= dropout < 1:
            raise refuse("GATConv", "dropout", dropout, "Give a probability of at least 0 and below 1.")
        if edge_dim is not None:
            raise refuse("GATConv", "edge_dim", edge_dim, "Attention knows no features of edges: leave it out.")
        if not isinstance(fill_value, str) or fill_value != "mean":
            raise refuse("GATConv", "fill_value", fill_value, "It is for features of edges, which there are none of.")
        check_others("GATConv", others)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.negative_slope = negative_slope
        self.dropout = dropout
        self.add_self_loops = add_self_loops
        self.residual = residual
        self._make_maps()
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        out = self._out_columns()
        self.register_parameter("bias", torch.nn.Parameter(torch.zeros(out)) if bias else None)
        self.res = glorot(in_channels[1] if isinstance(in_channels, tuple) else in_channels, out) if residual else None
        self.reset_parameters()

    def _make_maps(self) -> None:
        self.lin: torch.nn.Linear | None = None
        self.lin_src: torch.nn.Linear | None = None
        self.lin_dst: torch.nn.Linear | None = None
        columns = self.heads * self.out_channels
        if isinstance(self.in_channels, tuple):
            self.lin_src = glorot(self.in_channels[0], columns)
            self.lin_dst = glorot(self.in_channels[1], columns)
        else:
            self.lin = glorot(self.in_channels, columns)

    def _out_columns(self) -> int:
        return self.out_channels * (self.heads if self.concat else 1)

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as torch_geometric's layer does."""
        for linear in (self.lin, self.lin_src, self.lin_dst, self.res):
            if linear is not None:
                reset_glorot(linear.weight)
        reset_glorot(self.att_src)
        reset_glorot(self.att_dst)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self,
        x: Features,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        size: tuple[int, int] | None = None,
        return_attention_weights: bool | None = None,
    ) -> Tensor:
        """[destinations, heads * out_channels], or [destinations, out_channels] without `concat`.

        See strata.nn for x and edge_index. edge_attr and return_attention_weights are refused.
        """
        if edge_attr is not None:
            raise InputError("GATConv: edge_attr is not possible", "Attention knows no features of edges: leave it out.")
        if return_attention_weights is not None:
            raise InputError(
                "GATConv: return_attention_weights is not possible", "The weights of edges are never stored: leave it out."
            )
        inputs = inputs_of("GATConv", x, edge_index, size, self.in_channels)
        x_dst = inputs.x_dst
        rows = self._map(inputs.x_src, x_dst, inputs.shared)
        out = self._attend(rows, inputs.lists).to(rows.src.dtype)
        if not self.concat:
            out = out.view(-1, self.heads, self.out_channels).mean(dim=1)
        if self.res is not None and x_dst is not None:
            out = out + self.res(x_dst)
        return out if self.bias is None else out + self.bias.to(out.dtype)

    def _map(self, x_src: Tensor, x_dst: Tensor | None, shared: bool) -> _Rows:
        if self.lin is not None and shared:
            return _Rows(self.lin(x_src), None, True)
        of_src, of_dst = (self.lin, self.lin) if self.lin is not None else (self.lin_src, self.lin_dst)
        assert of_src is not None and of_dst is not None
        return _Rows(of_src(x_src), None if x_dst is None else of_dst(x_dst), False)

    def _attend(self, mapped: _Rows, lists: EdgeLists) -> Tensor:
        rows, src_weights, dst_weights = mapped.src.float().contiguous(), self.att_src[0].float(), self.att_dst[0].float()
        with torch.no_grad():
            src_scores = ops.score_heads(rows, src_weights)
        dst_scores = self._dst_scores(mapped, rows, dst_weights, lists)
        graded = needs_grad(rows, src_weights, dst_weights, dst_scores)
        key, ids = self._dropout_key(lists)
        out: Tensor = ops.attend_over_edges(
            rows,
            src_weights,
            dst_weights if mapped.shared else None,
            src_scores,
            dst_scores,
            lists.indptr,
            lists.indices,
            *(lists.out_lists() if graded else (None, None)),
            self.negative_slope,
            self.add_self_loops,
            0.0 if key is None else self.dropout,
            key,
            ids,
        )[0]
        return out

    def _dst_scores(self, mapped: _Rows, rows: Tensor, weights: Tensor, lists: EdgeLists) -> Tensor:
        if not mapped.shared and mapped.dst is None:
            return rows.new_zeros(lists.num_dst, self.heads)
        scored = rows[: lists.num_dst] if mapped.dst is None else mapped.dst.float().contiguous()
        # Shared rows have their gradient from attend_over_edges, that through the scores included.
        with torch.set_grad_enabled(torch.is_grad_enabled() and not mapped.shared):
            scores: Tensor = ops.score_heads(scored, weights)
        return scores

    def _dropout_key(self, lists: EdgeLists) -> tuple[Tensor | None, Tensor | None]:
        """Drawn from torch's generator of the device."""
        if not self.training or self.dropout == 0:
            return None, None
        device = lists.indptr.device
        key = torch.randint(-(2**63), 2**63 - 1, (2,), dtype=torch.int64, device=device)
        return key, torch.arange(max(lists.num_src, lists.num_dst), device=device)

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"
