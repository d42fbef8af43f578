# SPDX-License-Identifier: Apache-2.0
"""Relational graph convolutional networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from strata.batches import Block
from strata.errors import InputError
from strata.nn import ops
from strata.nn._inputs import Features, as_product, check_channels, check_others, inputs_of, refuse
from strata.nn._linear import reset_glorot
from strata.nn.edges import EdgeLists, Edges, lists_of
from strata.nn.relations import RelationLists, relations_of
from strata.nn.sage import sum_of_neighbors


class RGCNConv(torch.nn.Module):
    """torch_geometric.nn.RGCNConv: x root + the sum over relations of (mean of the in-neighbors over the relation) weight[relation].

    However many relations there are, a call makes one pass over the edges, one grouped product, and one pass over its rows
    (Schlichtkrull et al., "Modeling relational data with graph convolutional networks", ESWC 2018).

    Args:
        in_channels: columns of x, or (of x_src, of x_dst); the number of nodes where x is None or ids.
        out_channels: columns of the result.
        num_relations: their number; edge_type counts from 0.
        num_bases: weights are sums of so many matrices, by `comp`.
        num_blocks: weights are block-diagonal, of so many blocks.
        aggr: "mean", "sum" (or "add"), within a relation.
        root_weight: whether there is `root`.
        is_sorted: taken, without effect.
        bias: whether there is a bias.
    """

    comp: Tensor | None
    root: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        num_relations: int,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        aggr: str = "mean",
        root_weight: bool = True,
        is_sorted: bool = False,
        bias: bool = True,
        **others: Any,
    ) -> None:
        super().__init__()
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels), ("num_relations", num_relations)):
            check_channels("RGCNConv", name, count)
        if aggr not in ("mean", "sum", "add"):
            raise refuse("RGCNConv", "aggr", aggr, 'Choose "mean" or "sum".')
        if num_bases is not None and num_blocks is not None:
            raise refuse("RGCNConv", "num_blocks", num_blocks, "Give num_bases or num_blocks, not both.")
        check_others("RGCNConv", others)
        of_src, of_dst = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_relations = num_relations
        self.num_bases = num_bases
        self.num_blocks = num_blocks
        self.aggr = aggr
        self.is_sorted = is_sorted
        self.weight = torch.nn.Parameter(torch.empty(self._shape(of_src)))
        comp = torch.nn.Parameter(torch.empty(num_relations, num_bases)) if num_bases is not None else None
        self.register_parameter("comp", comp)
        self.register_parameter("root", torch.nn.Parameter(torch.empty(of_dst, out_channels)) if root_weight else None)
        self.register_parameter("bias", torch.nn.Parameter(torch.empty(out_channels)) if bias else None)
        self.reset_parameters()

    def _shape(self, of_src: int) -> tuple[int, ...]:
        if self.num_bases is not None:
            check_channels("RGCNConv", "num_bases", self.num_bases)
            return self.num_bases, of_src, self.out_channels
        if self.num_blocks is None:
            return self.num_relations, of_src, self.out_channels
        check_channels("RGCNConv", "num_blocks", self.num_blocks)
        if of_src % self.num_blocks or self.out_channels % self.num_blocks:
            raise refuse("RGCNConv", "num_blocks", self.num_blocks, "It must divide in_channels and out_channels.")
        return self.num_relations, self.num_blocks, of_src // self.num_blocks, self.out_channels // self.num_blocks

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as torch_geometric's layer does."""
        for weight in (self.weight, self.comp, self.root):
            if weight is not None:
                reset_glorot(weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # lengths depend on data
    def forward(self, x: Features | None, edge_index: Edges, edge_type: Tensor | None = None) -> Tensor:
        """[destinations, out_channels]; see strata.nn for x and edge_index, and PyG's layer for an x that is None or int64 ids.

        edge_type: int64 [E], the relation of each edge of edge_index, or of each of a block's in its order.
        """
        if edge_type is None:
            raise InputError("RGCNConv: edge_type is left out", "Give the relation of each edge, int64 [E].")
        ids = self._ids(x)
        if ids is not None:
            return self._of_ids(*ids, edge_index, edge_type)
        assert x is not None
        inputs = inputs_of("RGCNConv", x, edge_index, None, self.in_channels)
        relations = relations_of(inputs.lists, edge_type, self.num_relations)
        means = sum_of_neighbors(inputs.x_src, relations.rows, self._row_scale(relations))
        return self._finish(self._map(means, relations), inputs.x_dst, relations)

    def _row_scale(self, relations: RelationLists) -> Tensor | None:
        return relations.rows.inverse_counts() if self.aggr == "mean" else None

    def _weights(self) -> Tensor:
        """[R, in, out]."""
        if self.comp is None:
            return self.weight
        return (self.comp @ self.weight.flatten(1)).view(self.num_relations, *self.weight.shape[1:])

    def _map(self, means: Tensor, relations: RelationLists) -> Tensor:
        """[rows, out_channels]: each row by the weight of its relation."""
        weights = self._weights().to(means.dtype)
        if self.num_blocks is None:
            return ops.grouped_product(means, weights, relations.ends)
        parts = means.view(means.shape[0], self.num_blocks, -1)
        mapped = [ops.grouped_product(parts[:, b], weights[:, b], relations.ends) for b in range(self.num_blocks)]
        return torch.cat(mapped, dim=1)

    def _finish(self, mapped: Tensor, x_dst: Tensor | None, relations: RelationLists) -> Tensor:
        out = sum_of_neighbors(mapped, relations.of_nodes)
        if self.root is not None and x_dst is not None:
            if x_dst.is_floating_point():  # in place: a sum of its own would be one more pass over the rows
                out = out.addmm_(x_dst.to(out.dtype), self.root.to(out.dtype))
            else:
                out = out + self.root[x_dst]
        return as_product(out if self.bias is None else out.add_(self.bias.to(out.dtype)))

    def _ids(self, x: Features | None) -> tuple[Tensor, Tensor] | None:
        """The ids of sources and destinations that stand for one-hot features; None for features."""
        of_src, of_dst = x if isinstance(x, tuple) else (x, x)
        if of_src is None:
            sources = self.in_channels[0] if isinstance(self.in_channels, tuple) else self.in_channels
            of_src = torch.arange(sources, device=self.weight.device)
            of_dst = of_src if not isinstance(x, tuple) else of_dst
        if of_src.is_floating_point() or of_dst is None:
            return None
        if self.num_blocks is not None:
            raise InputError("RGCNConv: blocks need features", "Give x, or leave num_blocks out.")
        return of_src, of_dst

    def _of_ids(self, of_src: Tensor, of_dst: Tensor, edge_index: Edges, edge_type: Tensor) -> Tensor:
        """Rows of the weights stand for the products of one-hot features with them."""
        if isinstance(edge_index, (Block, EdgeLists)) and of_dst is of_src:
            of_dst = of_src[: edge_index.num_dst]
        relations = relations_of(lists_of(edge_index, len(of_src), len(of_dst)), edge_type, self.num_relations)
        weights = self._weights()
        at = relations.types * weights.shape[1] + of_src[relations.rows.indices.long()]
        lists = EdgeLists(weights.shape[0] * weights.shape[1], relations.rows.num_dst, relations.rows.indptr, at.int())
        return self._finish(sum_of_neighbors(weights.flatten(0, 1), lists, self._row_scale(relations)), of_dst, relations)

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}"
