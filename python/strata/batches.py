# SPDX-License-Identifier: Apache-2.0
"""Batches of blocks: what loaders give and layers take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from strata._arrays import to_torch

if TYPE_CHECKING:
    import torch

    from strata.nn.edges import EdgeLists


class Block:
    """One layer of a batch: messages flow from `num_src` sources; the first `num_dst` of them are the destinations.

    Attributes:
        indptr, indices: int64 [num_dst + 1] and int32 [E]; the in-edges of destination i are indices[indptr[i]:indptr[i + 1]].
        edge_ids: int64 [E]; None if the graph was loaded without them.
        src_nodes: int64 [num_src] ids.
        transposed: (int64 [num_src + 1], int32 [E]): the out-edges of each source, as destinations, which gradients of strata.nn's
            layers take; None in the input layer, whose input seldom needs one, and where the loader made none.
        types: of a graph of several types, what the block's nodes and edges are; None: one type.
    """

    def __init__(
        self,
        edge_index: torch.Tensor | None,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        edge_ids: torch.Tensor | None,
        src_nodes: torch.Tensor,
        num_src: int,
        num_dst: int,
        transposed: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        self._edge_index = edge_index
        self.indptr = indptr
        self.indices = indices
        self.edge_ids = edge_ids
        self._nodes = src_nodes  # maybe more than num_src
        self.num_src = num_src
        self.num_dst = num_dst
        self.transposed = transposed
        self.types: BlockTypes | None = None
        self._lists: EdgeLists | None = None  # what strata.nn made of it

    @property
    def edge_index(self) -> torch.Tensor:
        """int64 [2, E]: local ids of sources, then of destinations, as torch_geometric's layers take them; made when it is read."""
        if self._edge_index is None:
            from strata.nn import edges

            self._edge_index = edges.edge_index_of(self.indptr, self.indices)
        return self._edge_index

    @property
    def src_nodes(self) -> torch.Tensor:
        """int64 [num_src]: ids of the sources, the destinations' first."""
        return self._nodes[: self.num_src]

    def __iter__(self) -> Iterator[Any]:
        """The arguments of the constructor."""
        return iter((self._edge_index, self.indptr, self.indices, self.edge_ids, self.src_nodes, self.num_src, self.num_dst))

    def __repr__(self) -> str:
        return f"strata.Block(num_src={self.num_src}, num_dst={self.num_dst}, edges={len(self.indices)})"

    @property
    def size(self) -> tuple[int, int]:
        """(sources, destinations), as torch_geometric's bipartite layers take it."""
        return self.num_src, self.num_dst

    def to_dgl(self) -> Any:
        """A dgl block on the same device; srcdata and dstdata have the nodes' ids as dgl.NID, edata the edges' as dgl.EID."""
        from strata._dgl_blocks import dgl_block_of

        return dgl_block_of(self)


class BlockTypes(NamedTuple):
    """The types of a block's nodes and edges, as numbers in the lists of names, which are the graph's."""

    node_types: list[str]
    edge_types: list[tuple[str, str, str]]
    of_nodes: torch.Tensor  # int64 [num_src]
    of_edges: torch.Tensor  # int64 [E], which RGCNConv takes as edge_type


class _BlockTriple(NamedTuple):
    input_nodes: torch.Tensor
    output_nodes: torch.Tensor
    blocks: list[Block]


class Adj(NamedTuple):
    """One layer of a batch as PyG's older NeighborSampler gives it: its EdgeIndex.

    Attributes:
        edge_index: int64 [2, E] local ids of sources, then of destinations.
        e_id: int64 [E]; None if the graph was loaded without ids of edges.
        size: (sources, destinations).
    """

    edge_index: torch.Tensor
    e_id: torch.Tensor | None
    size: tuple[int, int]

    def to(self, *args: Any, **options: Any) -> Adj:
        """The same with its tensors moved or converted as torch.Tensor.to() does; batches lie on the rank's device already."""
        e_id = None if self.e_id is None else self.e_id.to(*args, **options)
        return Adj(self.edge_index.to(*args, **options), e_id, self.size)


class BlockBatch(_BlockTriple):
    """The batch of a NodeLoader; unpacks to (input_nodes, output_nodes, blocks).

    loss_scale, sum_scale and input_id are as in NeighborLoader's batches.
    """

    loss_scale: float
    sum_scale: float
    input_id: torch.Tensor

    @property
    def adjs(self) -> list[Adj]:
        """(edge_index, e_id, size) of each layer, as PyG's older NeighborSampler gives them; a list also of a single one."""
        return [Adj(block.edge_index, block.edge_ids, block.size) for block in self.blocks]

    def to_dgl(self) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
        """(input_nodes, output_nodes, blocks of dgl), as dgl.dataloading.DataLoader gives them."""
        return self.input_nodes, self.output_nodes, [block.to_dgl() for block in self.blocks]


AnyBlock = TypeVar("AnyBlock", bound=Block)


def block_of(lists: Sequence[Any], nodes: torch.Tensor, kind: type[AnyBlock]) -> AnyBlock:
    """A block of a batch of _core, whose input nodes are given."""
    num_src, num_dst, *arrays = lists
    indptr, indices = (to_torch(array) for array in arrays[:2])
    edge_ids, out_indptr, out_indices = (None if array is None else to_torch(array) for array in arrays[2:])
    transposed = None if out_indptr is None or out_indices is None else (out_indptr, out_indices)
    return kind(None, indptr, indices, edge_ids, nodes, num_src, num_dst, transposed)
