# SPDX-License-Identifier: Apache-2.0
"""Edges of several relations as lists of rows: one row per destination and relation over which it has neighbors."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from strata.errors import InputError
from strata.nn.edges import EdgeLists

_ALIGNED = 8  # rows of a relation begin at a multiple of it, which grouped products of bfloat16 need


def indptr_of(counts: Tensor) -> Tensor:
    """int64 [n + 1]: the sum of the counts before each, and of all."""
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


class _Placed:
    """Where things that are sorted by relation lie, so that those of each begin at a multiple of _ALIGNED."""

    def __init__(self, relations: Tensor, num_relations: int) -> None:
        counts = torch.bincount(relations, minlength=num_relations)
        padded = (counts + _ALIGNED - 1) // _ALIGNED * _ALIGNED
        self.ends = padded.cumsum(0)
        moved = (self.ends - padded) - (counts.cumsum(0) - counts)
        self.places = torch.arange(len(relations), device=relations.device) + moved[relations]
        self.size = int(self.ends[-1])

    def put(self, values: Tensor) -> Tensor:
        """The values in their places, and 0 elsewhere."""
        return values.new_zeros(self.size).index_copy_(0, self.places, values)


class RelationLists:
    """The rows of a graph or block, sorted by relation, and within one by destination.

        destination 0 <- {4, 7} over relation 1, {2} over relation 0; destination 1 <- {5} over relation 1
        rows: 0 <- {2} (relation 0), seven empty ones, 0 <- {4, 7}, 1 <- {5} (relation 1), six empty ones; ends [8, 16]

    However many relations there are, layers make one pass over the edges, one grouped product, and one pass over the rows.

    Attributes:
        rows: EdgeLists from the sources to the rows.
        of_nodes: EdgeLists from the rows to the destinations.
        ends: int32 [R] one past the last row of each relation.
        relations, destinations: int64 [rows]; those of empty rows are 0.
    """

    def __init__(self, lists: EdgeLists, types: Tensor, num_relations: int) -> None:
        """`types` int64 [E] are relations of the edges, in the order in which the lists' edges were given."""
        types = lists.ordered(types).long()
        if types.shape != lists.indices.shape:
            raise InputError(f"edge_type has the shape {list(types.shape)} for {lists.num_edges} edges", "Give one relation per edge.")
        device, num_dst = types.device, max(1, lists.num_dst)
        destinations = torch.repeat_interleave(
            torch.arange(lists.num_dst, device=device), lists.indptr.diff(), output_size=lists.num_edges
        )
        keys, order = torch.sort(types * num_dst + destinations, stable=True)
        found, counts = torch.unique_consecutive(keys, return_counts=True)
        relations, nodes = found // num_dst, found % num_dst
        if len(relations) and not 0 <= int(types.min()) <= int(relations[-1]) < num_relations:
            raise InputError(f"edge_type has relations outside of 0 to {num_relations - 1}", "Number the relations from 0.")
        placed = _Placed(relations, num_relations)
        self.num_relations = num_relations
        self.rows = EdgeLists(lists.num_src, placed.size, indptr_of(placed.put(counts)), lists.indices[order])
        by_node, of_node = torch.sort(nodes, stable=True)
        firsts = torch.searchsorted(by_node, torch.arange(lists.num_dst + 1, device=device))
        self.of_nodes = EdgeLists(placed.size, lists.num_dst, firsts, placed.places[of_node].int())
        self.ends = placed.ends.int()
        self.relations, self.destinations = placed.put(relations), placed.put(nodes)


class SourceLists:
    """The distinct (relation, source) of rows, sorted likewise, so that each source is mapped once for every relation it occurs in.

    Attributes:
        sources: EdgeLists from the nodes to the pairs, of one edge each; empty pairs have none.
        of_rows: EdgeLists from the pairs to the rows.
        ends: int32 [R] one past the last pair of each relation.
    """

    def __init__(self, relations: RelationLists) -> None:
        rows = relations.rows
        num_src = max(1, rows.num_src)
        of_edges = torch.repeat_interleave(relations.relations, rows.indptr.diff(), output_size=rows.num_edges)
        found, pair_of_edge = torch.unique(of_edges * num_src + rows.indices, return_inverse=True)
        of_pairs = found // num_src
        placed = _Placed(of_pairs, relations.num_relations)
        of_sources = indptr_of(placed.put(torch.ones_like(found)))
        self.sources = EdgeLists(rows.num_src, placed.size, of_sources, (found % num_src).int())
        self.of_rows = EdgeLists(placed.size, rows.num_dst, rows.indptr, placed.places[pair_of_edge].int())
        self.ends = placed.ends.int()


_made: WeakKeyDictionary[EdgeLists, tuple[Tensor, int, RelationLists]] = WeakKeyDictionary()


def relations_of(lists: EdgeLists, types: Tensor, num_relations: int) -> RelationLists:
    """Those of the same lists and types, which are made once."""
    made = _made.get(lists)
    if made is None or made[0] is not types or made[1] != num_relations:
        made = (types, num_relations, RelationLists(lists, types, num_relations))
        _made[lists] = made
    return made[2]
