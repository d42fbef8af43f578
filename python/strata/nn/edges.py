# SPDX-License-Identifier: Apache-2.0
"""The edges of a batch as the kernels read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Union

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from strata.errors import InputError
from strata.batches import Block
from strata.nn import ops

MOST_NODES = 2**31 - 1  # local ids are int32
Made = TypeVar("Made")


def made_normally(make: Callable[[], Made]) -> Made:
    """Makes a kept value so that it serves training, too, even if evaluation asks for it first."""
    if torch.compiler.is_compiling():
        return make()
    with torch.inference_mode(False), torch.no_grad():
        return make()


class EdgeLists:
    """The edges of a bipartite graph, by destination, and for gradients by source.

    Layers make it of an edge_index or a block, and keep it as long as that lives, so that the layers of a model share one.
    Make it by hand to share it among tensors with the same edges, or under torch.compile between calls:

        lists = strata.nn.EdgeLists.of_edge_index(edge_index, num_src=len(x), num_dst=len(x))
        out = conv(x, lists)

    Attributes:
        num_src, num_dst: numbers of sources and destinations.
        indptr, indices: int64 [num_dst + 1] and int32 [E]; the in-neighbors of v are indices[indptr[v]:indptr[v + 1]].
        origins: int64 [E], where each edge was; None: in the same place.
    """

    def __init__(self, num_src: int, num_dst: int, indptr: Tensor, indices: Tensor, origins: Tensor | None = None) -> None:
        self.num_src = num_src
        self.num_dst = num_dst
        self.indptr = indptr
        self.indices = indices
        self.origins = origins
        self._out_lists: tuple[Tensor, Tensor] | None = None
        self._kept: dict[str, Any] = {}

    @classmethod
    def of_edge_index(cls, edge_index: Tensor, num_src: int, num_dst: int) -> EdgeLists:
        """Edges of int64 [2, E]: sources and destinations, in any order."""
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
            kind = f"a {edge_index.layout} tensor" if isinstance(edge_index, Tensor) else type(edge_index).__name__
            raise InputError(f"edge_index is {kind}", "Give a tensor of int64 [2, E], a strata.Block, or an EdgeLists.")
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
            raise InputError(f"edge_index is {edge_index.dtype} of shape {list(edge_index.shape)}", "Give int64 [2, E].")
        if max(num_src, num_dst) > MOST_NODES:
            raise InputError(f"{max(num_src, num_dst)} nodes in one call, of at most {MOST_NODES}", "Make smaller batches.")
        return cls(num_src, num_dst, *ops.sort_edges(edge_index, num_src, num_dst))

    @classmethod
    def of_block(cls, block: Block) -> EdgeLists:
        """Edges of a block, which share its lists."""
        lists = cls(block.num_src, block.num_dst, block.indptr, block.indices)
        lists._out_lists = block.transposed
        return lists

    @property
    def num_edges(self) -> int:
        """E."""
        return self.indices.shape[0]

    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """(out_indptr int64 [num_src + 1], out_indices int32 [E], origins int64 [E] in `indices`)."""
        made: tuple[Tensor, Tensor, Tensor] = self.once(
            "transposed", lambda: ops.transpose_edges(self.indptr, self.indices, self.num_src)
        )
        return made

    def out_lists(self) -> tuple[Tensor, Tensor]:
        """The first two of transposed(), which the lists of a loader's blocks may bring along."""
        return self._out_lists or self.transposed()[:2]

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """Returns what `make` gives, and keeps it by its name as long as the lists."""
        if name not in self._kept:
            self._kept[name] = made_normally(make)
        kept: Made = self._kept[name]
        return kept

    def counts(self) -> Tensor:
        """Numbers of in-edges, float32 [num_dst]."""
        return self.indptr.diff().float()

    def inverse_counts(self) -> Tensor:
        """1 / counts(), and 0 without in-edges."""
        made: Tensor = self.once("inverse_counts", lambda: ops.inverse_counts(self.indptr))
        return made

    def loops(self) -> Tensor:
        """The edges from a node to itself, bool [E]: source and destination have the same number."""
        nodes = torch.arange(self.num_dst, device=self.indptr.device, dtype=torch.int32)
        return self.indices == torch.repeat_interleave(nodes, self.indptr.diff(), output_size=self.num_edges)

    def ordered(self, values: Tensor) -> Tensor:
        """Values of edges in the order of `indices`."""
        return values if self.origins is None else values[self.origins]


def edge_index_of(indptr: Tensor, indices: Tensor) -> Tensor:
    """int64 [2, E] of lists, in their order."""
    made: Tensor = made_normally(lambda: ops.edge_index_of(indptr, indices))
    return made


Edges = Union[Tensor, Block, EdgeLists]

# Each edge_index that is alive, with what was made of it.
_made: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def lists_of(edges: Edges, num_src: int, num_dst: int) -> EdgeLists:
    """The edges as lists, which are made once per edge_index or block."""
    if isinstance(edges, EdgeLists):
        lists = edges
    elif isinstance(edges, Block):
        lists = _of_block_once(edges)
    elif isinstance(edges, Tensor):
        edge_index = edges
        lists = _once(edge_index, (num_src, num_dst), lambda: EdgeLists.of_edge_index(edge_index, num_src, num_dst))
    else:
        lists = EdgeLists.of_edge_index(edges, num_src, num_dst)
    if (lists.num_src, lists.num_dst) != (num_src, num_dst):
        raise InputError(
            f"x has {num_src} sources and {num_dst} destinations, its edges {lists.num_src} and {lists.num_dst}",
            "Give the rows of the block's sources, which begin with the destinations, or (x_src, x_dst).",
        )
    return lists


def _of_block_once(block: Block) -> EdgeLists:
    if torch.compiler.is_compiling():
        return EdgeLists.of_block(block)
    if block._lists is None:
        block._lists = EdgeLists.of_block(block)
    return block._lists


def _once(key: Tensor, sizes: tuple[int, int], make: Callable[[], EdgeLists]) -> EdgeLists:
    # A compiled graph makes them itself; tensors of inference mode do not say when they change.
    if torch.compiler.is_compiling() or key.is_inference():
        return make()
    state = (key._version, sizes)
    made: tuple[Any, EdgeLists] | None = _made.get(key)  # type: ignore[no-untyped-call]
    if made is None or made[0] != state:
        made = (state, made_normally(make))
        _made[key] = made
    return made[1]
