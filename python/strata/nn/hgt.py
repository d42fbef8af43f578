# SPDX-License-Identifier: Apache-2.0
"""Heterogeneous graph transformers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from strata.batches import Block
from strata.errors import InputError
from strata.nn import ops
from strata._arrays import on_device
from strata.nn._dots import attend_by_dots
from strata.nn._inputs import as_product, check_channels, check_others, inputs_of, refuse, without_half
from strata.nn.edges import EdgeLists
from strata.nn.relations import ALIGNED, EdgeType, NodesByRelation, destinations_of, merged_edges, most_relations
from strata.nn.typed_linear import HeteroDictLinear, HeteroLinear, key_of, map_by_type, nodes_by_type, of_types, rows_of_pairs


class HGTConv(torch.nn.Module):
    """torch_geometric.nn.HGTConv: attention of a node over its neighbors of all relations together, by keys, queries and values.

    Keys and values of each source are mapped once for every relation that it occurs in, all of them by one grouped product
    (Hu et al., "Heterogeneous graph transformer", WWW 2020); nothing is stored per edge. Attention is computed in float32.

    Args:
        in_channels: columns of x of each type, or of all.
        out_channels: columns of the results.
        metadata: (node types, edge types), as graph.metadata() and HeteroData.metadata() give them.
        heads: their number, which divides out_channels.
    """

    def __init__(
        self,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        metadata: tuple[list[str], list[EdgeType]],
        heads: int = 1,
        **others: Any,
    ) -> None:
        super().__init__()
        check_channels("HGTConv", "heads", heads)
        check_others("HGTConv", others)
        if out_channels % heads:
            raise refuse("HGTConv", "heads", heads, "It must divide out_channels.")
        self.node_types, self.edge_types = list(metadata[0]), list(metadata[1])
        self.in_channels = (
            dict(in_channels) if isinstance(in_channels, Mapping) else dict.fromkeys(self.node_types, in_channels)
        )
        self.out_channels = out_channels
        self.heads = heads
        columns, num_maps = out_channels // heads, heads * len(self.edge_types)
        self.kqv_lin = HeteroDictLinear(self.in_channels, 3 * out_channels)
        self.out_lin = HeteroDictLinear(out_channels, out_channels, types=self.node_types)
        self.k_rel = HeteroLinear(columns, columns, num_maps, bias=False, is_sorted=True)
        self.v_rel = HeteroLinear(columns, columns, num_maps, bias=False, is_sorted=True)
        self.skip = torch.nn.ParameterDict({key_of(kind): torch.nn.Parameter(torch.ones(1)) for kind in self.node_types})
        self.p_rel = torch.nn.ParameterDict(
            {key_of("__".join(kind)): torch.nn.Parameter(torch.ones(1, heads)) for kind in self.edge_types}
        )

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as torch_geometric's layer does."""
        for maps in (self.kqv_lin, self.out_lin, self.k_rel, self.v_rel):
            maps.reset_parameters()
        for parameter in (*self.skip.parameters(), *self.p_rel.parameters()):
            torch.nn.init.ones_(parameter)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # lengths depend on data
    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        """[n, out_channels] of each type that a relation of the graph goes to, by type.

        x_dict: float32 or bfloat16 [n, F] by type; edge_index_dict: int64 [2, E], counted within the types. Or x [num_src, F] and a
        strata.Block of a graph of these types: gives [num_dst, out_channels].
        """
        if isinstance(edge_index_dict, Block):
            return self._of_block(x_dict, edge_index_dict)
        x_dict = {kind: x_dict[kind] for kind in self.node_types if kind in x_dict}
        active = [kind for kind in self.edge_types if kind in edge_index_dict and kind[0] in x_dict and kind[2] in x_dict]
        if not x_dict:
            raise InputError("HGTConv: x_dict has none of the layer's types", f"Give rows of {self.node_types}.")
        mapped = self.kqv_lin(x_dict)
        sizes = {kind: len(rows) for kind, rows in mapped.items()}
        kqv = without_half(torch.cat(list(mapped.values())))
        lists, types = merged_edges(sizes, edge_index_dict, active, self.edge_types, kqv.device)
        # Types may have other numbers of columns, so that kqv are the rows that relations map.
        kept = torch.eye(kqv.shape[1], device=kqv.device).expand(len(self.edge_types), -1, -1)
        attended = self._attend(kqv, self._fold(kept), kqv[:, self.out_channels : 2 * self.out_channels], lists, types)
        reached = {kind[2] for kind in self.edge_types}
        parts = zip(sizes, torch.split(torch.nn.functional.gelu(attended), list(sizes.values())))
        out_dict = self.out_lin({kind: part for kind, part in parts if kind in reached})
        return {kind: self._skip(out, x_dict[kind], self.skip[key_of(kind)].sigmoid()) for kind, out in out_dict.items()}

    def _of_block(self, x: Tensor, block: Block) -> Tensor:
        if block.types is None or (block.types.node_types, block.types.edge_types) != (self.node_types, self.edge_types):
            raise InputError(
                "HGTConv: the block is of a graph of other types", "Make the layer with metadata=graph.metadata()."
            )
        if len(set(self.in_channels.values())) > 1:
            raise InputError(
                "HGTConv: types have other numbers of columns, but a block's rows are of one",
                "Map them to as many columns before, or give x_dict and edge_index_dict.",
            )
        inputs = inputs_of("HGTConv", x, block, None, next(iter(self.in_channels.values())))
        rows, maps = _with_ones(x), _with_biases(self.kqv_lin)
        queries = torch.split(maps, self.out_channels, dim=2)[1]
        sources = on_device([self.node_types.index(kind[0]) for kind in self.edge_types], x.device)
        queries = map_by_type(rows, nodes_by_type(block, block.num_dst), queries)
        attended = self._attend(rows, self._fold(maps.index_select(0, sources)), queries, inputs.lists, block.types.of_edges)
        of_dst = block.types.of_nodes[: block.num_dst]
        out = _map(self.out_lin, torch.nn.functional.gelu(attended), nodes_by_type(block, block.num_dst), of_dst)
        gates = torch.stack([self.skip[key_of(kind)] for kind in self.node_types]).sigmoid()
        return self._skip(out, x[: block.num_dst], of_types(of_dst, gates))

    def _skip(self, out: Tensor, x: Tensor, gate: Tensor) -> Tensor:
        """The result between a node's own row and that of its neighbors, where these have as many columns."""
        if out.shape[1] == x.shape[1]:
            gate = gate.to(out.dtype)
            out = gate * out + (1 - gate) * x.to(out.dtype)
        return as_product(out)

    def _fold(self, maps: Tensor) -> Tensor:
        """[R, in, 2 * out_channels] from a source's row to its key, times all that scales a score, and its value.

        maps [R, in, 3 * out_channels] give the keys, queries and values that the relations map.
        """
        columns, relations = self.out_channels // self.heads, len(self.edge_types)
        keys, _, values = maps.view(*maps.shape[:2], 3, self.heads, columns).unbind(2)
        scale = torch.cat([self.p_rel[key_of("__".join(kind))] for kind in self.edge_types]).t() / math.sqrt(columns)
        # A gate that is not used has a gradient of 0, without which DistributedDataParallel does not go on.
        scale = scale + 0 * torch.cat([self.skip[key_of(kind)] for kind in self.node_types]).sum()
        of_keys, of_values = (maps.weight.view(self.heads, relations, columns, -1) for maps in (self.k_rel, self.v_rel))
        folded = [
            torch.einsum("rihd,hrde->rihe", part, by)
            for part, by in ((keys, of_keys * scale[..., None, None]), (values, of_values))
        ]
        return torch.stack(folded, dim=2).flatten(2)

    def _attend(self, x: Tensor, weights: Tensor, queries: Tensor, lists: EdgeLists, types: Tensor) -> Tensor:
        """[num_dst, out_channels]; weights of _fold(), queries [at least num_dst, out_channels], and the relation of each edge."""
        with torch.no_grad():
            pairs = NodesByRelation(
                lists.ordered(types),
                lists.indices.long(),
                lists.num_src,
                len(self.edge_types),
                most_relations(self.edge_types, 0),
            )
            of_pairs = pairs.lists_of_edges(lists.num_dst, lists.indptr, destinations_of(lists))
        sources = rows_of_pairs(x, pairs.lists_of_rows())
        rows = ops.grouped_product(sources, weights.to(sources.dtype), pairs.ends)
        return attend_by_dots(queries[: lists.num_dst].to(rows.dtype), rows, of_pairs, self.heads)

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.out_channels}, heads={self.heads}, num_relations={len(self.edge_types)}"


def _map(maps: HeteroDictLinear, x: Tensor, by_type: NodesByRelation, types: Tensor) -> Tensor:
    weights, biases = maps.weights()
    out = map_by_type(x, by_type, weights)
    return out if biases is None else out + of_types(types, biases.to(out.dtype))


def _with_ones(x: Tensor) -> Tensor:
    """Rows with columns that begin with a one, by which a product adds a bias; so many that rows stay aligned."""
    ones = torch.zeros(ALIGNED, dtype=x.dtype, device=x.device)
    ones[:1] = 1
    return torch.cat([x, ones.expand(len(x), -1)], dim=1)


def _with_biases(maps: HeteroDictLinear) -> Tensor:
    """[T, in + ALIGNED, out] for rows _with_ones()."""
    weights, biases = maps.weights()
    assert biases is not None
    return torch.cat([weights, torch.nn.functional.pad(biases.unsqueeze(1), (0, 0, 0, ALIGNED - 1))], dim=1)
