# SPDX-License-Identifier: Apache-2.0
"""Attention with any scores of edges: softmax over a node's edges, and the sum of rows of the edges by it."""

from __future__ import annotations

import torch
from torch import Tensor

from strata.nn import ops
from strata.nn.edges import EdgeLists
from strata.nn.relations import ListsAndBack, NodesByRelation
from strata.nn.sage import sum_of_neighbors


class EdgeRows:
    """Rows of edges, from and to rows of what each edge belongs to: a node, or a pair of a relation and a node.

    Sums take the edges in their order: the same bits in every run.
    """

    def __init__(self, owners: Tensor, indptr: Tensor, order: Tensor) -> None:
        """`owners` int32 [E] are what the edges belong to; their edges are order[indptr[i]:indptr[i + 1]]."""
        places = torch.arange(len(owners) + 1, device=owners.device)
        num_owners = len(indptr) - 1
        self.owners = owners
        self._into = ListsAndBack(len(owners), num_owners, indptr, order, lambda: (places, owners))
        self._out_of = ListsAndBack(num_owners, len(owners), places, owners, lambda: (indptr, order))

    @classmethod
    def of_destinations(cls, lists: EdgeLists) -> EdgeRows:
        """Edges belong to their destinations."""
        device = lists.indptr.device
        nodes = torch.arange(lists.num_dst, device=device, dtype=torch.int32)
        owners = torch.repeat_interleave(nodes, lists.indptr.diff(), output_size=lists.num_edges)
        return cls(owners, lists.indptr, torch.arange(lists.num_edges, device=device, dtype=torch.int32))

    @classmethod
    def of_pairs(cls, pairs: NodesByRelation) -> EdgeRows:
        """Edges, in the order in which they were given, belong to their pairs of a relation and a node."""
        owners = torch.empty_like(pairs.rows)
        owners[pairs.order] = pairs.rows
        return cls(owners.int(), pairs.indptr, pairs.order.int())

    def of_edges(self, rows: Tensor) -> Tensor:
        """[E, F]: the row of what each edge belongs to."""
        return sum_of_neighbors(rows, self._out_of)

    def summed(self, rows: Tensor) -> Tensor:
        """[owners, F]: sums of the rows of the edges."""
        return sum_of_neighbors(rows, self._into)

    def softmax(self, scores: Tensor) -> Tensor:
        """[E, H]: softmax of float32 scores over the edges of each owner."""
        with torch.no_grad():
            most = self.of_edges(ops.max_over_edges(scores, self._into.indptr, self._into.indices, None, None)[0])
        weights = (scores - most).exp()
        return weights / self.of_edges(self.summed(weights))
