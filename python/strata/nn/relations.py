# SPDX-License-Identifier: Apache-2.0
"""Edges of several relations as lists of rows: one row per destination and relation over which it has neighbors.

On a GPU the host never waits for the numbers of rows: they stay on the device, and tensors are as long as they may be at most.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from strata._arrays import on_device
from strata.errors import InputError
from strata.nn.edges import EdgeLists, made_normally

EdgeType = tuple[str, str, str]
ALIGNED = 8  # rows of a relation begin at a multiple of it, which grouped products of bfloat16 need


def indptr_of(counts: Tensor) -> Tensor:
    """int64 [n + 1]: the sum of the counts before each, and of all."""
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


def destinations_of(lists: EdgeLists) -> Tensor:
    """int64 [E]: the destination of each edge."""
    nodes = torch.arange(lists.num_dst, device=lists.indptr.device)
    return torch.repeat_interleave(nodes, lists.indptr.diff(), output_size=lists.num_edges)


class ListsAndBack(EdgeLists):
    """Lists whose transpose is made by a function, when it is first needed; `indices` may be longer than the lists."""

    def __init__(
        self, num_src: int, num_dst: int, indptr: Tensor, indices: Tensor, back: Callable[[], tuple[Tensor, Tensor]]
    ) -> None:
        super().__init__(num_src, num_dst, indptr, indices)
        self._back = back

    def out_lists(self) -> tuple[Tensor, Tensor]:
        made: tuple[Tensor, Tensor] = self.once("out_lists", self._back)
        return made


class NodesByRelation:
    """The distinct pairs of a relation and a node among some edges: a row for each, sorted by relation, and within one by node.

        edges with (relation, node) = (1, 0), (0, 2), (1, 0), (1, 1)
        rows: node 2 (relation 0), seven empty ones, nodes 0 and 1 (relation 1), six empty ones; ends [8, 16]

    Attributes:
        order: int64 [E] the edges, sorted by row; those of a row stay in their order.
        rows: int64 [E] the row of each edge of `order`.
        size: how many rows there are, at least ends[-1]; empty ones are between relations, and on a GPU behind the last.
        indptr: int64 [size + 1] the edges of each row, in `order`.
        ends: int32 [R] one past the last row of each relation.
    """

    def __init__(self, relations: Tensor, nodes: Tensor, num_nodes: int, num_relations: int, most: int | None = None) -> None:
        """`most` is the largest number of relations that a node can have; None: all of them."""
        device, num_edges, self.num_nodes = relations.device, len(relations), num_nodes
        factor = max(1, num_nodes)
        # A GPU sorts short keys in half the passes.
        short = torch.int32 if num_relations * factor < 2**31 - 1 else torch.int64
        keys, self.order = torch.sort((relations * factor + nodes).to(short), stable=True)
        is_next = torch.zeros_like(keys)
        is_next[1:] = keys[1:] != keys[:-1]
        pairs = is_next.cumsum(0)  # the number of each edge's pair
        firsts = torch.searchsorted(keys, torch.arange(num_relations + 1, device=device, dtype=short) * factor)
        of_relations = torch.cat([pairs, pairs[-1:] + 1]) if num_edges else pairs.new_zeros(1)
        counts = of_relations[firsts].diff()
        padded = (counts + ALIGNED - 1) // ALIGNED * ALIGNED
        ends = padded.cumsum(0)
        moved = (ends - padded) - (counts.cumsum(0) - counts)
        self.rows = pairs + moved[keys // factor]
        self.ends = ends.int()
        num_pairs, self.size = self._sizes(of_relations, ends, num_edges, num_relations, most)
        self.indptr = torch.searchsorted(self.rows, torch.arange(self.size + 1, device=device))
        first_edges = torch.searchsorted(pairs, torch.arange(num_pairs + 1, device=device))
        at = first_edges[:-1].clamp(max=max(0, num_edges - 1))
        self._is_pair = first_edges.diff() > 0
        self._nodes, self._places = keys[at] % factor, self.rows[at]

    def _sizes(
        self, of_relations: Tensor, ends: Tensor, num_edges: int, num_relations: int, most: int | None
    ) -> tuple[int, int]:
        """How many pairs and rows there are; on a GPU the most that there may be."""
        if _is_read_at_once(ends):
            return int(of_relations[-1]), int(ends[-1])
        num_pairs = min(num_edges, self.num_nodes * min(num_relations, num_relations if most is None else most))
        rows = num_pairs + (ALIGNED - 1) * min(num_pairs, num_relations)
        return num_pairs, -(-rows // ALIGNED) * ALIGNED

    def lists_of_rows(self, num_nodes: int | None = None) -> EdgeLists:
        """From the nodes, of which there may be more, to the rows, each of which has its node as its only neighbor; empty ones have none."""
        num_src = self.num_nodes if num_nodes is None else num_nodes
        return ListsAndBack(num_src, self.size, *self._of_rows(), lambda: self._of_nodes(num_src))

    def lists_of_nodes(self) -> EdgeLists:
        """From the rows to the nodes, whose neighbors are their rows in the order of relations."""
        return ListsAndBack(self.size, self.num_nodes, *self._of_nodes(self.num_nodes), self._of_rows)

    def lists_of_edges(self, num_dst: int, indptr: Tensor, destinations: Tensor) -> EdgeLists:
        """From the rows to the destinations of the edges: int [E], ascending, those of v being [indptr[v], indptr[v + 1])."""
        rows = torch.empty_like(self.rows)
        rows[self.order] = self.rows
        return ListsAndBack(self.size, num_dst, indptr, rows.int(), lambda: (self.indptr, destinations[self.order].int()))

    def _of_rows(self) -> tuple[Tensor, Tensor]:
        return indptr_of((self.indptr.diff() > 0).long()), self._nodes.int()

    def _of_nodes(self, num_nodes: int) -> tuple[Tensor, Tensor]:
        nodes, order = torch.sort(torch.where(self._is_pair, self._nodes, num_nodes), stable=True)
        firsts = torch.searchsorted(nodes, torch.arange(num_nodes + 1, device=nodes.device, dtype=nodes.dtype))
        return firsts, self._places[order].int()


class RelationLists:
    """The rows of a graph or block, sorted by relation, and within one by destination.

        destination 0 <- {4, 7} over relation 1, {2} over relation 0; destination 1 <- {5} over relation 1
        rows: 0 <- {2} (relation 0), seven empty ones, 0 <- {4, 7}, 1 <- {5} (relation 1), six empty ones; ends [8, 16]

    However many relations there are, layers make one pass over the edges, one grouped product, and one pass over the rows.

    Attributes:
        rows: EdgeLists from the sources to the rows.
        of_nodes: EdgeLists from the rows to the destinations.
        ends: int32 [R] one past the last row of each relation.
        types: int64 [E] the relation of each edge of `rows`.
        by_destination: the pairs of relations and destinations, whose rows these are.
    """

    def __init__(self, lists: EdgeLists, types: Tensor, num_relations: int, most: int | None = None) -> None:
        """`types` int64 [E] are relations of the edges, in the order in which the lists' edges were given; `most` is the largest
        number of relations into a node, where it is known."""
        types = lists.ordered(types).long()
        if types.shape != lists.indices.shape:
            raise InputError(
                f"edge_type has the shape {list(types.shape)} for {lists.num_edges} edges", "Give one relation per edge."
            )
        check_types("edge_type has relations", types, num_relations)
        destinations = destinations_of(lists)
        self.num_relations = num_relations
        self.by_destination = made = NodesByRelation(types, destinations, lists.num_dst, num_relations, most)
        self.rows = EdgeLists(lists.num_src, made.size, made.indptr, lists.indices[made.order])
        self.types = types[made.order]
        self.of_nodes = made.lists_of_nodes()
        self.ends = made.ends


class SourceLists:
    """The distinct (relation, source) of rows, sorted likewise, so that each source is mapped once for every relation it occurs in.

    Attributes:
        sources: EdgeLists from the nodes to the pairs, of one edge each; empty pairs have none.
        of_rows: EdgeLists from the pairs to the rows.
        ends: int32 [R] one past the last pair of each relation.
    """

    def __init__(self, relations: RelationLists, most: int | None = None) -> None:
        """`most` is the largest number of relations out of a node, where it is known."""
        rows = relations.rows
        made = NodesByRelation(relations.types, rows.indices.long(), rows.num_src, relations.num_relations, most)
        self.sources = made.lists_of_rows()
        self.of_rows = made.lists_of_edges(rows.num_dst, rows.indptr, relations.by_destination.rows)
        self.ends = made.ends


def _is_read_at_once(values: Tensor) -> bool:
    """Whether the host reads values without waiting for a GPU."""
    return not values.is_cuda


def check_types(what: str, types: Tensor, count: int) -> None:
    """Refuses types that do not exist; a GPU stops at them."""
    if not len(types):
        return
    least, most = types.aminmax()
    if types.is_cuda:
        torch._assert_async((least >= 0) & (most < count), f"{what} that the layer does not have")
    elif not 0 <= int(least) <= int(most) < count:
        raise InputError(f"{what} outside of 0 to {count - 1}", "Number them from 0.")


def most_relations(edge_types: Sequence[EdgeType], end: int) -> int:
    """The largest number of relations from (0) or to (2) a type of nodes."""
    return max(collections.Counter(kind[end] for kind in edge_types).values(), default=0)


def merged_edges(
    sizes: Mapping[str, int],
    edge_index_dict: Mapping[EdgeType, Tensor],
    active: Sequence[EdgeType],
    relations: Sequence[EdgeType],
    device: torch.device,
) -> tuple[EdgeLists, Tensor]:
    """All types as one graph, whose nodes are those of `sizes`, one type after the other; and the relation of each of its edges.

    `active` are the relations whose edges are taken; `relations` number them.
    """
    offsets, size = {}, 0
    for kind, count in sizes.items():
        offsets[kind] = size
        size += count
    numbers = {edge: number for number, edge in enumerate(relations)}
    if not active:
        nothing = torch.empty((2, 0), dtype=torch.int64, device=device)
        return EdgeLists.of_edge_index(nothing, size, size), nothing[0]
    facts = [[edge_index_dict[edge].shape[1], numbers[edge], offsets[edge[0]], offsets[edge[2]]] for edge in active]
    counts, places, *firsts = on_device(facts, device).t()
    edge_index = torch.cat([edge_index_dict[edge] for edge in active], dim=1)
    of_edges = torch.repeat_interleave(torch.arange(len(active), device=device), counts, output_size=edge_index.shape[1])
    with torch.no_grad():
        return EdgeLists.of_edge_index(edge_index + torch.stack(firsts)[:, of_edges], size, size), places[of_edges]


_made: WeakKeyDictionary[EdgeLists, tuple[Tensor, int, RelationLists]] = WeakKeyDictionary()


def relations_of(lists: EdgeLists, types: Tensor, num_relations: int, most: int | None = None) -> RelationLists:
    """Those of the same lists and types, which are made once."""
    made = _made.get(lists)
    if made is None or made[0] is not types or made[1] != num_relations:
        made = (types, num_relations, made_normally(lambda: RelationLists(lists, types, num_relations, most)))
        _made[lists] = made
    return made[2]
