# SPDX-License-Identifier: Apache-2.0
"""Relational graph attention networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from strata.errors import InputError
from strata.nn import ops
from strata.nn._attention import EdgeRows
from strata.nn._inputs import as_product, check_channels, check_others, inputs_of, refuse
from strata.nn._linear import glorot, reset_glorot
from strata.nn.edges import Edges
from strata.nn.relations import NodesByRelation, check_types
from strata.nn.sage import sum_of_neighbors


class RGATConv(torch.nn.Module):
    """torch_geometric.nn.RGATConv: attention over a node's neighbors of all relations, each mapped by the weight of its relation.

    A source is mapped once for every relation that it occurs in, and a destination once for its scores, however many edges there
    are (Busbridge et al., "Relational graph attention networks", 2019). Attention is computed in float32. The softmax of MLPerf's
    R-GAT, which is over one relation and has weights of its own, is strata.nn.HeteroConv of GATConv.

    Args:
        in_channels: columns of x.
        out_channels: columns of a head.
        num_relations: their number; edge_type counts from 0.
        num_bases: weights are sums of so many matrices, `basis`, by `att`.
        num_blocks: weights are block-diagonal, of so many blocks.
        mod: None; PyG's others are refused.
        attention_mechanism: "across-relation": softmax over all neighbors. "within-relation": over those of each relation.
        attention_mode: "additive-self-attention" or "multiplicative-self-attention".
        heads: their number.
        dim: scores per head, for "multiplicative-self-attention".
        concat: whether heads are concatenated; False: their mean.
        negative_slope: of the leaky ReLU of additive attention.
        dropout: probability with which a head ignores an edge in training.
        edge_dim: columns of edge_attr.
        bias: whether there is a bias.
    """

    bias: Tensor | None
    e: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        mod: str | None = None,
        attention_mechanism: str = "across-relation",
        attention_mode: str = "additive-self-attention",
        heads: int = 1,
        dim: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        bias: bool = True,
        **others: Any,
    ) -> None:
        super().__init__()
        for name, count in (
            *(("in_channels", in_channels), ("out_channels", out_channels), ("num_relations", num_relations), ("heads", heads)),
            *(("dim", dim), ("num_bases", num_bases or 1), ("num_blocks", num_blocks or 1), ("edge_dim", edge_dim or 1)),
        ):
            check_channels("RGATConv", name, count)
        if mod is not None:
            raise refuse("RGATConv", "mod", mod, "Leave it out, or take torch_geometric's layer.")
        if attention_mechanism not in ("across-relation", "within-relation"):
            raise refuse(
                "RGATConv", "attention_mechanism", attention_mechanism, 'Choose "across-relation" or "within-relation".'
            )
        if attention_mode not in ("additive-self-attention", "multiplicative-self-attention"):
            raise refuse(
                "RGATConv",
                "attention_mode",
                attention_mode,
                'Choose "additive-self-attention" or "multiplicative-self-attention".',
            )
        if dim > 1 and attention_mode == "additive-self-attention":
            raise refuse("RGATConv", "dim", dim, 'Take attention_mode="multiplicative-self-attention".')
        if num_bases is not None and num_blocks is not None:
            raise refuse("RGATConv", "num_blocks", num_blocks, "Give num_bases or num_blocks, not both.")
        if in_channels % (num_blocks or 1) or heads * out_channels % (num_blocks or 1):
            raise refuse("RGATConv", "num_blocks", num_blocks, "It must divide in_channels and heads * out_channels.")
        if not 0 <= dropout < 1:
            raise refuse("RGATConv", "dropout", dropout, "Give a probability of at least 0 and below 1.")
        check_others("RGATConv", others)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_relations = num_relations
        self.num_bases = num_bases
        self.num_blocks = num_blocks
        self.attention_mechanism = attention_mechanism
        self.attention_mode = attention_mode
        self.heads = heads
        self.dim = dim
        self.concat = concat
        self.negative_slope = negative_slope
        self.dropout = dropout
        self._make_parameters(edge_dim, bias)
        self.reset_parameters()

    def _make_parameters(self, edge_dim: int | None, bias: bool) -> None:
        columns, scores = self.heads * self.out_channels, self.heads * self.dim

        def parameter(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.empty(shape))

        self.q, self.k = parameter(columns, scores), parameter(columns, scores)
        out = self.dim * self.out_channels * (self.heads if self.concat else 1)
        self.register_parameter("bias", parameter(out) if bias else None)
        self.lin_edge = None if edge_dim is None else glorot(edge_dim, columns)
        self.register_parameter("e", None if edge_dim is None else parameter(columns, scores))
        if self.num_bases is not None:
            self.att = parameter(self.num_relations, self.num_bases)
            self.basis = parameter(self.num_bases, self.in_channels, columns)
        elif self.num_blocks is not None:
            blocks = self.num_blocks
            self.weight = parameter(self.num_relations, blocks, self.in_channels // blocks, columns // blocks)
        else:
            self.weight = parameter(self.num_relations, self.in_channels, columns)
        # PyG's state has these, too, which only a `mod` reads.
        for name, value in (
            ("w", torch.ones(self.out_channels)),
            ("l1", torch.ones(1, self.out_channels)),
            ("b1", torch.zeros(1, self.out_channels)),
            ("l2", torch.full((self.out_channels, self.out_channels), 1 / self.out_channels)),
            ("b2", torch.zeros(1, self.out_channels)),
        ):
            self.register_buffer(name, value)

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as torch_geometric's layer does."""
        maps = (self.weight,) if self.num_bases is None else (self.basis, self.att)
        for weight in (*maps, self.q, self.k, self.e, None if self.lin_edge is None else self.lin_edge.weight):
            if weight is not None:
                reset_glorot(weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # lengths depend on data
    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_type: Tensor | None = None,
        edge_attr: Tensor | None = None,
        size: tuple[int, int] | None = None,
        return_attention_weights: bool | None = None,
    ) -> Tensor:
        """[destinations, heads * dim * out_channels], or a mean over the heads without `concat`; see strata.nn for x and edge_index.

        edge_type: int64 [E], the relation of each edge of edge_index, or of each of a block's in its order, and so are the rows of
        edge_attr [E, edge_dim]. return_attention_weights is refused.
        """
        if edge_type is None:
            raise InputError("RGATConv: edge_type is left out", "Give the relation of each edge, int64 [E].")
        if return_attention_weights is not None:
            raise InputError("RGATConv: return_attention_weights is not possible", "Leave it out.")
        if (edge_attr is None) != (self.lin_edge is None):
            raise InputError(
                "RGATConv: edge_attr is " + ("left out" if edge_attr is None else "given"),
                "Make the layer with edge_dim for it, and give both.",
            )
        inputs = inputs_of("RGATConv", x, edge_index, size, self.in_channels)
        lists = inputs.lists
        types = lists.ordered(edge_type).long()
        check_types("edge_type has relations", types, self.num_relations)
        edges = EdgeRows.of_destinations(lists)
        by_source = NodesByRelation(types, lists.indices.long(), lists.num_src, self.num_relations)
        by_destination = NodesByRelation(types, edges.owners.long(), lists.num_dst, self.num_relations)
        sources, destinations = EdgeRows.of_pairs(by_source), EdgeRows.of_pairs(by_destination)
        weights = self._weights().to(inputs.x_src.dtype)
        rows = sum_of_neighbors(inputs.x_src, by_source.lists_of_rows())
        values = ops.grouped_product(rows, weights, by_source.ends)
        keys = sources.of_edges(values @ self.k.to(values.dtype)).float()
        rows = sum_of_neighbors(inputs.x_src, by_destination.lists_of_rows(lists.num_src))
        queries = ops.grouped_product(rows, weights @ self.q.to(weights.dtype), by_destination.ends)
        scores = self._scores(
            destinations.of_edges(queries).float(), keys, None if edge_attr is None else lists.ordered(edge_attr)
        )
        attention = (edges if self.attention_mechanism == "across-relation" else destinations).softmax(scores)
        attention = torch.nn.functional.dropout(attention, self.dropout, self.training).to(values.dtype)
        return self._finish(edges.summed(self._weighed(sources.of_edges(values), attention)))

    def _weights(self) -> Tensor:
        """[R, in, heads * out]."""
        if self.num_bases is not None:
            return (self.att @ self.basis.flatten(1)).view(self.num_relations, *self.basis.shape[1:])
        if self.num_blocks is None:
            return self.weight
        blocks = torch.eye(self.num_blocks, dtype=self.weight.dtype, device=self.weight.device)
        return torch.einsum("rbio,bc->rbico", self.weight, blocks).reshape(self.num_relations, self.in_channels, -1)

    def _scores(self, queries: Tensor, keys: Tensor, edge_attr: Tensor | None) -> Tensor:
        """[E, heads * dim]."""
        of_attr = None
        if self.lin_edge is not None and self.e is not None and edge_attr is not None:
            of_attr = self.lin_edge(edge_attr.view(len(keys), -1)) @ self.e
        if self.attention_mode == "additive-self-attention":
            scores = queries + keys if of_attr is None else queries + keys + of_attr.float()
            return torch.nn.functional.leaky_relu(scores, self.negative_slope)
        return queries * keys if of_attr is None else queries * keys * of_attr.float()

    def _weighed(self, values: Tensor, attention: Tensor) -> Tensor:
        """[E, heads * dim * out]."""
        of_heads = values.view(-1, self.heads, 1, self.out_channels)
        return (of_heads * attention.view(-1, self.heads, self.dim, 1)).flatten(1)

    def _finish(self, out: Tensor) -> Tensor:
        if not self.concat:
            out = out.view(-1, self.heads, self.dim * self.out_channels).mean(dim=1)
        return as_product(out if self.bias is None else out + self.bias.to(out.dtype))

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}, heads={self.heads}"
