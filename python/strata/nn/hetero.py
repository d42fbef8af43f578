# SPDX-License-Identifier: Apache-2.0
"""Layers over several types of nodes and edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from strata._arrays import on_device
from strata.errors import InputError
from strata.nn import ops
from strata.batches import Block
from strata.nn._inputs import as_product, inputs_of, needs_grad, without_half
from strata.nn._linear import reset_module
from strata.nn.gat import GATConv
from strata.nn.edges import EdgeLists
from strata.nn.relations import EdgeType, RelationLists, SourceLists, merged_edges, most_relations, relations_of
from strata.nn.sage import SAGEConv, sum_of_neighbors
from strata.nn.typed_linear import map_by_type, nodes_by_type, of_types, only_neighbors, rows_of_pairs


class _Merged(NamedTuple):
    """All types as one graph, whose rows are those of the types, one after the other."""

    x: Tensor
    kinds: list[str]
    relations: RelationLists
    edge_types: list[EdgeType]


class HeteroConv(torch.nn.Module):
    """torch_geometric.nn.HeteroConv: a layer per relation, whose results for a type of nodes are summed.

    Where the layers are all strata.nn.SAGEConv ("mean" or "sum"), or all strata.nn.GATConv without self-loops, of equal arguments,
    and all types have as many columns, all relations are computed at once: a call makes as many launches for 200 relations as
    for one. Other layers, also PyG's, are called one after the other. The state_dict is PyG's: convs.<a___b___c>.lin_l.weight.

    GATConv's softmax is over the neighbors of one relation, as in the R-GAT of MLPerf.

    Args:
        convs: a layer for each (source type, name, destination type).
        aggr: "sum", or "mean" over the relations of a type.
    """

    def __init__(self, convs: Mapping[EdgeType, torch.nn.Module], aggr: str = "sum") -> None:
        super().__init__()
        if aggr not in ("sum", "mean"):
            raise InputError(f"HeteroConv(aggr={aggr!r}) is not possible", 'Choose "sum" or "mean".')
        if not convs:
            raise InputError("HeteroConv has no layers", "Give one for each relation.")
        self.aggr = aggr
        self.edge_types = list(convs)
        self.convs = torch.nn.ModuleDict({_name_of(kind): conv for kind, conv in convs.items()})
        self._compute = _computing(list(convs.values()))

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for conv in self.convs.values():
            reset_module(conv)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # lengths depend on data
    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        """Rows of the types that a relation of edge_index_dict goes to, by type.

        x_dict: float32 or bfloat16 [n, F] by type; edge_index_dict: int64 [2, E], counted within the types. Or x [num_src, F] and a
        strata.Block of a graph of several types, with a layer for each of its relations: gives [num_dst, out].
        """
        if isinstance(edge_index_dict, Block):
            return self._of_block(x_dict, edge_index_dict)
        active = [kind for kind in self.edge_types if kind in edge_index_dict and kind[0] in x_dict and kind[2] in x_dict]
        widths = {x_dict[kind].shape[1:] for edge in active for kind in (edge[0], edge[2])}
        if self._compute is None or len(widths) != 1:
            return self._one_by_one(x_dict, edge_index_dict, active)
        merged = _merge(x_dict, edge_index_dict, active)
        layers = [self.convs[_name_of(kind)] for kind in active]
        # The gradient of split() is one concatenation, where slices would add up as many tensors of all rows.
        parts = torch.split(self._compute(layers, merged), [len(x_dict[kind]) for kind in merged.kinds])
        reached = {edge[2] for edge in active}
        return {
            kind: self._finish(kind, out, x_dict[kind], active) for kind, out in zip(merged.kinds, parts) if kind in reached
        }

    def _finish(self, kind: str, out: Tensor, x: Tensor, active: list[EdgeType]) -> Tensor:
        """Adds what the layers of a type's relations give every node: maps of its own row, and biases."""
        into: list[Any] = [self.convs[_name_of(edge)] for edge in active if edge[2] == kind]
        if isinstance(into[0], SAGEConv) and into[0].root_weight:
            root = torch.stack([layer.lin_r.weight for layer in into]).sum(0)
            out = out + torch.nn.functional.linear(x, root.to(x.dtype))
        biases = [_bias_of(layer) for layer in into]
        if biases[0] is not None:
            out = out + torch.stack(biases).sum(0).to(out.dtype)
        return as_product(out / len(into) if self.aggr == "mean" else out)

    def _of_block(self, x: Tensor, block: Block) -> Tensor:
        if block.types is None or self._compute is None:
            what = "the block is of a graph of one type" if block.types is None else "the layers are unequal"
            raise InputError(f"HeteroConv: {what}", "Give x_dict and edge_index_dict, as NeighborLoader's batches have them.")
        missing = [kind for kind in block.types.edge_types if kind not in self.edge_types]
        if missing:
            raise InputError(
                f"HeteroConv has no layer for the relation {missing[0]}", "Give one for each relation of the graph."
            )
        lists = inputs_of("HeteroConv", x, block).lists
        edge_types = block.types.edge_types
        layers: list[Any] = [self.convs[_name_of(kind)] for kind in edge_types]
        relations = relations_of(lists, block.types.of_edges, len(edge_types), most_relations(edge_types, 2))
        out = self._compute(layers, _Merged(x, [], relations, edge_types))
        return self._finish_block(out, x, block, layers)

    def _finish_block(self, out: Tensor, x: Tensor, block: Block, layers: list[Any]) -> Tensor:
        """What _finish() adds, for destinations of all types at once."""
        types = block.types
        assert types is not None
        of_nodes = types.of_nodes[: block.num_dst]
        into = [[layer for kind, layer in zip(types.edge_types, layers) if kind[2] == name] for name in types.node_types]

        def of_each_type(value: Callable[[Any], Tensor], like: Tensor) -> Tensor:
            sums = [
                torch.stack([value(layer) for layer in of_type]).sum(0) if of_type else torch.zeros_like(like)
                for of_type in into
            ]
            return torch.stack(sums).to(out.dtype)

        first = layers[0]
        if isinstance(first, SAGEConv) and first.root_weight:
            roots = of_each_type(lambda layer: layer.lin_r.weight, first.lin_r.weight).transpose(1, 2)
            out = out + map_by_type(x, nodes_by_type(block, block.num_dst), roots)
        bias = _bias_of(first)
        if bias is not None:
            out = out + of_types(of_nodes, of_each_type(_bias_of, bias))
        if self.aggr == "mean":
            counts = on_device([[float(max(1, len(of_type)))] for of_type in into], x.device)
            out = out / of_types(of_nodes, counts.to(out.dtype))
        return as_product(out)

    def _one_by_one(
        self, x_dict: Mapping[str, Tensor], edge_index_dict: Mapping[EdgeType, Tensor], active: list[EdgeType]
    ) -> dict[str, Tensor]:
        found: dict[str, list[Tensor]] = {}
        for kind in active:
            of_src, of_dst = x_dict[kind[0]], x_dict[kind[2]]
            x = of_src if kind[0] == kind[2] else (of_src, of_dst)
            found.setdefault(kind[2], []).append(self.convs[_name_of(kind)](x, edge_index_dict[kind]))
        summed = {kind: torch.stack(rows).sum(0) for kind, rows in found.items()}
        return {kind: rows / len(found[kind]) if self.aggr == "mean" else rows for kind, rows in summed.items()}

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"num_relations={len(self.edge_types)}"


def _name_of(kind: EdgeType) -> str:
    """PyG's name of a relation's layer."""
    return "<" + "___".join(kind).replace(".", "#") + ">"


def _bias_of(layer: Any) -> Any:
    return layer.lin_l.bias if isinstance(layer, SAGEConv) else layer.bias


def _merge(x_dict: Mapping[str, Tensor], edge_index_dict: Mapping[EdgeType, Tensor], active: list[EdgeType]) -> _Merged:
    kinds = list(dict.fromkeys(kind for edge in active for kind in (edge[0], edge[2])))
    x = without_half(torch.cat([x_dict[kind] for kind in kinds]) if len(kinds) > 1 else x_dict[kinds[0]])
    lists, types = merged_edges({kind: len(x_dict[kind]) for kind in kinds}, edge_index_dict, active, active, x.device)
    with torch.no_grad():
        return _Merged(x, kinds, RelationLists(lists, types, len(active), most_relations(active, 2)), active)


def _computing(layers: list[torch.nn.Module]) -> Callable[[list[Any], _Merged], Tensor] | None:
    """What computes all layers at once; None: they differ."""
    known: tuple[tuple[type, Callable[[Any], Any], Callable[[list[Any], _Merged], Tensor]], ...]
    known = ((SAGEConv, _facts_of_sage, _sage), (GATConv, _facts_of_gat, _gat))
    for kind, facts, compute in known:
        if all(type(layer) is kind for layer in layers):
            of_layers = {facts(layer) for layer in layers}
            return compute if len(of_layers) == 1 and None not in of_layers else None
    return None


def _facts_of_sage(layer: SAGEConv) -> Any:
    if layer.aggr == "max" or layer.normalize or layer.relu_input:
        return None
    return layer.aggr, layer.lin_l.weight.shape, layer.lin_l.bias is None, layer.root_weight


def _sage(layers: list[SAGEConv], merged: _Merged) -> Tensor:
    """The sum of lin_l(mean of the neighbors over a relation)."""
    relations = merged.relations
    scale = relations.rows.inverse_counts() if layers[0].aggr == "mean" else None
    means = sum_of_neighbors(merged.x, relations.rows, scale)
    weights = torch.stack([layer.lin_l.weight.t() for layer in layers]).to(means.dtype)
    return sum_of_neighbors(ops.grouped_product(means, weights, relations.ends), relations.of_nodes)


def _facts_of_gat(layer: GATConv) -> Any:
    if layer.add_self_loops or layer.residual or not layer.concat or layer.dropout > 0 or layer.lin is None:
        return None
    return layer.heads, layer.out_channels, layer.lin.weight.shape, layer.negative_slope, layer.bias is None


def _gat(layers: list[GATConv], merged: _Merged) -> Tensor:
    """The sum over the relations of their attention, each a softmax by itself.

    Sources are mapped once for every relation that they occur in; of destinations only scores are needed, for which
    <W x, a> = <x, W^T a>.
    """
    relations, first = merged.relations, layers[0]
    pairs = SourceLists(relations, most_relations(merged.edge_types, 0))
    weights = torch.stack([layer.lin.weight for layer in layers if layer.lin is not None])
    x_src = rows_of_pairs(merged.x, pairs.sources)
    rows = ops.grouped_product(x_src, weights.transpose(1, 2).to(x_src.dtype), pairs.ends)
    by_head = weights.view(len(layers), first.heads, first.out_channels, -1)
    attention = torch.stack([torch.cat([layer.att_src for layer in layers]), torch.cat([layer.att_dst for layer in layers])])
    columns = torch.einsum("rhci,erhc->erhi", by_head, attention).to(x_src.dtype)
    if columns[..., 0].numel() <= merged.x.shape[1]:
        src_scores, dst_scores = _scores_of_nodes(columns, merged, pairs)
    else:
        x_dst = sum_of_neighbors(merged.x, relations.by_destination.lists_of_rows(relations.rows.num_src))
        src_scores = ops.grouped_product(x_src, columns[0].transpose(1, 2), pairs.ends).float()
        dst_scores = ops.grouped_product(x_dst, columns[1].transpose(1, 2), relations.ends).float()
    lists = pairs.of_rows
    back = lists.out_lists() if needs_grad(rows, src_scores, dst_scores) else (None, None)
    attended: Tensor = ops.attend_over_edges(
        rows,
        None,
        None,
        src_scores,
        dst_scores,
        lists.indptr,
        lists.indices,
        *back,
        first.negative_slope,
        False,
        0.0,
        None,
        None,
    )[0]
    return sum_of_neighbors(attended, relations.of_nodes)


def _scores_of_nodes(columns: Tensor, merged: _Merged, pairs: SourceLists) -> tuple[Tensor, Tensor]:
    """Scores of the pairs and of the rows, picked from those of all nodes over all relations, which are one product.

    columns [2, R, H, in]: for sources and for destinations.
    """
    relations, num_relations = merged.relations, columns.shape[1]
    in_src = _numbers(pairs.sources, pairs.ends, 0, 2 * num_relations)
    in_dst = _numbers(relations.by_destination.lists_of_rows(), relations.ends, num_relations, 2 * num_relations)
    scores = torch.nn.functional.linear(merged.x, columns.flatten(0, 2)).view(-1, columns.shape[2])
    picked = scores.index_select(0, torch.cat([in_src, in_dst])).float()
    src_scores, dst_scores = torch.split(picked, [len(in_src), len(in_dst)])
    return src_scores, dst_scores


def _numbers(rows: EdgeLists, ends: Tensor, first: int, count: int) -> Tensor:
    """node * count + first + relation of each row. Empty rows have nodes in turn: sums of their gradients, which are 0, would wait for
    each other at a single one."""
    places = torch.arange(rows.num_dst, device=ends.device, dtype=torch.int32)
    nodes = torch.where(rows.indptr.diff() > 0, only_neighbors(rows), places % max(1, rows.num_src))
    return nodes.long() * count + first + torch.searchsorted(ends, places, right=True).clamp(max=len(ends) - 1)
