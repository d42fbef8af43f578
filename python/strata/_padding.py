# SPDX-License-Identifier: Apache-2.0
"""Batches in buffers of fixed shapes, where a recorded step finds them.

A batch's nodes come hop by hop, seeds first. Each hop has room for more nodes than most batches find, and what is left at
its end is padding. With rooms for 4, 6 and 8 nodes, of 3 seeds, 4 and 7 nodes,

    row       0 1 2 3 | 4 5 6 7 8 9 | 10 ... 16 17
    holds     s s s - | a a a a - - | b  ...  b  -

Padding edges go from padding rows of a hop to padding rows of the hop before, so that no node of the batch has another edge
than without them. The last rows of a hop are `spare`: no batch fills them, and they are what padding edges join.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strata.loaders import Block, BlockBatch

if TYPE_CHECKING:
    from torch_geometric.data import Data

_IGNORED = -100  # the label that torch's cross_entropy ignores


@dataclass(frozen=True)
class BatchSizes:
    """Nodes that each hop found, seeds first, and the edges of each hop."""

    nodes: tuple[int, ...]
    edges: tuple[int, ...]

    @staticmethod
    def of_data(batch: Data) -> BatchSizes:
        return BatchSizes(tuple(batch.num_sampled_nodes), tuple(batch.num_sampled_edges))

    @staticmethod
    def of_blocks(blocks: Sequence[Block]) -> BatchSizes:
        hops = blocks[::-1]
        found = [hop.num_src - hop.num_dst for hop in hops]
        return BatchSizes((hops[0].num_dst, *found), tuple(len(hop.indices) for hop in hops))

    def larger_of(self, other: BatchSizes) -> BatchSizes:
        """The larger number of each hop."""
        return BatchSizes(tuple(map(max, self.nodes, other.nodes)), tuple(map(max, self.edges, other.edges)))


def _rounded_up(count: float, multiple: int) -> int:
    return -int(-count // multiple) * multiple


@dataclass(frozen=True)
class PaddedShape:
    """Rooms for the nodes and the edges of each hop; `spare` rows of each hop are never filled."""

    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    spare: tuple[int, ...]

    @staticmethod
    def around(sizes: BatchSizes, margin: float) -> PaddedShape:
        """Room for such a batch, and a share of `margin` more."""
        nodes = [(1 + margin) * count for count in sizes.nodes]
        edges = [(1 + margin) * count for count in sizes.edges]
        spare = tuple(1 + int(count) // 64 for count in nodes)
        rooms = (_rounded_up(count + more, 8) for count, more in zip(nodes, spare))
        return PaddedShape(tuple(rooms), tuple(_rounded_up(count + 1, 128) for count in edges), spare)

    def holds(self, sizes: BatchSizes) -> bool:
        return all(count + spare <= room for count, spare, room in zip(sizes.nodes, self.spare, self.nodes)) and all(
            count <= room for count, room in zip(sizes.edges, self.edges)
        )


def _starts(counts: Sequence[int]) -> list[int]:
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + count)
    return starts


class _Rows:
    """Where nodes lie in the buffers."""

    def __init__(self, shape: PaddedShape, device: torch.device) -> None:
        self._shape = shape
        self._starts = _starts(shape.nodes)
        self.total = self._starts[-1]
        self._numbers = torch.arange(self.total, device=device)
        self._small_numbers = self._numbers.int()
        self._zeros = torch.zeros(self.total, dtype=torch.int64, device=device)

    def positions(self, sizes: BatchSizes, *, small: bool) -> Tensor:
        """The row of each node of a batch; int32 if `small`."""
        numbers = self._small_numbers if small else self._numbers
        return torch.cat([numbers[start : start + count] for start, count in zip(self._starts, sizes.nodes)])

    def copy(self, out: Tensor, rows: Tensor, sizes: BatchSizes) -> None:
        """Rows of nodes, and zeros as padding."""
        begin = 0
        for count, start, end in zip(sizes.nodes, self._starts, self._starts[1:]):
            out[start : start + count].copy_(rows[begin : begin + count])
            out[start + count : end].zero_()
            begin += count

    def copy_ids(self, out: Tensor, ids: Tensor, sizes: BatchSizes) -> None:
        """The same of int64 ids, at once."""
        pieces, begin = [], 0
        for count, room in zip(sizes.nodes, self._shape.nodes):
            pieces += [ids[begin : begin + count], self._zeros[: room - count]]
            begin += count
        torch.cat(pieces, out=out)

    def spare(self, hop: int, num_edges: int) -> Tensor:
        """The row of a hop that each padding edge would join if all edges were padding, int64 [num_edges], ascending."""
        count = self._shape.spare[hop]
        return self._starts[hop + 1] - count + torch.arange(num_edges, device=self._numbers.device) * count // num_edges

    def spare_bounds(self, hop: int, num_edges: int) -> Tensor:
        """Where the edges of each spare row begin in spare(), and their number, int64 [spare + 1]."""
        count = self._shape.spare[hop]
        return self._numbers.new_tensor([-(-number * num_edges // count) for number in range(count + 1)])

    def copy_indptr(self, out: Tensor, indptr: Tensor, sizes: BatchSizes, last_hop: int, spare_starts: Tensor) -> None:
        """Where lists of nodes start, and of padding: spare rows of the last hop have lists of their own, other padding none."""
        pieces, begin = [], 0
        for hop in range(last_hop + 1):
            count, room = sizes.nodes[hop], self._shape.nodes[hop]
            without_edges = room - count - (self._shape.spare[hop] if hop == last_hop else 0)
            pieces += [indptr[begin : begin + count], indptr[begin + count : begin + count + 1].expand(without_edges)]
            begin += count
        torch.cat([*pieces, spare_starts], out=out)


class _Seeds:
    """Labels of seeds, and what tells seeds from padding."""

    def __init__(self, room: int, labels: Tensor | None, device: torch.device) -> None:
        self.labels = None
        if labels is not None:
            fill = 0 if labels.is_floating_point() else _IGNORED
            self._padding = labels.new_full((room, *labels.shape[1:]), fill)
            self.labels = self._padding.clone()
        self.mask = torch.zeros(room, dtype=torch.bool, device=device)
        self.count = torch.zeros((), device=device)
        self.loss_scale = torch.zeros((), device=device)
        self.input_id = torch.zeros(room, dtype=torch.int64, device=device)
        self._numbers = torch.arange(room, device=device)

    def copy(self, labels: Tensor | None, input_id: Tensor, loss_scale: float) -> None:
        count = len(input_id)
        if self.labels is not None:
            torch.cat([self._padding[:0] if labels is None else labels, self._padding[count:]], out=self.labels)
        torch.lt(self._numbers, count, out=self.mask)
        self.count.fill_(count)
        self.loss_scale.fill_(loss_scale)
        self.input_id[:count].copy_(input_id)
        self.input_id[count:].zero_()

    @staticmethod
    def describe(batch: Any, mask: Tensor, count: Tensor, loss_scale: Tensor) -> None:
        batch.seed_mask, batch.num_seeds, batch.loss_scale = mask, count, loss_scale

    @classmethod
    def describe_unpadded(cls, batch: Any, count: int, loss_scale: float, device: torch.device) -> None:
        """The same of a batch without padding, so that a step finds the same in both."""
        number = torch.full((), count, dtype=torch.float32, device=device)
        cls.describe(batch, torch.ones(count, dtype=torch.bool, device=device), number, torch.full_like(number, loss_scale))


def _alias(tensor: Tensor) -> Tensor:
    """The same memory as another tensor: what layers keep about a tensor they keep for one call then."""
    return tensor.detach()


class PaddedData:
    """A buffer for batches of NeighborLoader."""

    def __init__(self, shape: PaddedShape, like: Data) -> None:
        device = like.edge_index.device
        self._shape = shape
        self._rows = _Rows(shape, device)
        self._seeds = _Seeds(shape.nodes[0], like.y if "y" in like else None, device)
        self._x = like.x.new_zeros(self._rows.total, like.x.shape[1]) if "x" in like else None
        self._ids = {
            name: torch.zeros(self._rows.total, dtype=torch.int64, device=device) for name in ("n_id", "original_ids")
        }
        pairs = [
            torch.stack([self._rows.spare(hop + 1, count), self._rows.spare(hop, count)])
            for hop, count in enumerate(shape.edges)
        ]
        self._padding = torch.cat(pairs, dim=1)
        self._edge_index = self._padding.clone()
        self._no_edges = torch.zeros_like(self._padding[0])
        self._e_id = self._no_edges.clone() if "e_id" in like else None

    def copy(self, batch: Data) -> None:
        sizes = BatchSizes.of_data(batch)
        if self._x is not None:
            self._rows.copy(self._x, batch.x, sizes)
        for name, ids in self._ids.items():
            self._rows.copy_ids(ids, batch[name], sizes)
        moved = self._rows.positions(sizes, small=False)[batch.edge_index]
        self._copy_edges(self._edge_index, moved, self._padding, sizes)
        if self._e_id is not None:
            self._copy_edges(self._e_id, batch.e_id, self._no_edges, sizes)
        self._seeds.copy(batch.y if "y" in batch else None, batch.input_id, batch.loss_scale)

    def _copy_edges(self, out: Tensor, values: Tensor, padding: Tensor, sizes: BatchSizes) -> None:
        pieces, begin, start = [], 0, 0
        for count, room in zip(sizes.edges, self._shape.edges):
            pieces += [values[..., begin : begin + count], padding[..., start + count : start + room]]
            begin, start = begin + count, start + room
        torch.cat(pieces, dim=-1, out=out)

    def batch(self) -> Data:
        """What was copied last, as new tensors of the same memory."""
        from torch_geometric.data import Data

        data = Data(edge_index=_alias(self._edge_index), num_nodes=self._rows.total)
        for name, tensor in (("x", self._x), ("y", self._seeds.labels), ("e_id", self._e_id), *self._ids.items()):
            if tensor is not None:
                data[name] = _alias(tensor)
        data.input_id = _alias(self._seeds.input_id)
        data.batch_size = self._shape.nodes[0]
        data.num_sampled_nodes, data.num_sampled_edges = list(self._shape.nodes), list(self._shape.edges)
        _Seeds.describe(data, _alias(self._seeds.mask), _alias(self._seeds.count), _alias(self._seeds.loss_scale))
        return data

    sizes_of = staticmethod(BatchSizes.of_data)

    @staticmethod
    def unpadded(batch: Data) -> Data:
        data = copy.copy(batch)
        _Seeds.describe_unpadded(data, batch.batch_size, batch.loss_scale, batch.edge_index.device)
        return data


class _PaddedBlock:
    """A buffer for the block of one hop, whose destinations are the nodes of hops 0 to `hop`."""

    def __init__(self, shape: PaddedShape, rows: _Rows, hop: int, like: Block) -> None:
        room = shape.edges[hop]
        nodes = _starts(shape.nodes)
        self._rows, self._hop = rows, hop
        self.num_dst, self.num_src = nodes[hop + 1], nodes[hop + 2]
        self._indices_padding, self._out_padding = rows.spare(hop + 1, room).int(), rows.spare(hop, room).int()
        self._bounds, self._out_bounds = rows.spare_bounds(hop, room), rows.spare_bounds(hop + 1, room)
        self._indptr = like.indptr.new_zeros(self.num_dst + 1)
        self._indices = self._indices_padding.clone()
        self._no_edges = torch.zeros(room, dtype=torch.int64, device=like.indptr.device)
        self._edge_ids = self._no_edges.clone() if like.edge_ids is not None else None
        self._transposed = None
        if like.transposed is not None:
            self._transposed = like.indptr.new_zeros(self.num_src + 1), self._out_padding.clone()

    def copy(self, block: Block, positions: Tensor, sizes: BatchSizes) -> None:
        count = sizes.edges[self._hop]
        self._rows.copy_indptr(self._indptr, block.indptr, sizes, self._hop, self._bounds.clamp(min=count))
        torch.cat([positions.index_select(0, block.indices), self._indices_padding[count:]], out=self._indices)
        if self._edge_ids is not None and block.edge_ids is not None:
            torch.cat([block.edge_ids, self._no_edges[count:]], out=self._edge_ids)
        if self._transposed is not None and block.transposed is not None:
            (indptr, indices), (of_block, indices_of_block) = self._transposed, block.transposed
            self._rows.copy_indptr(indptr, of_block, sizes, self._hop + 1, self._out_bounds.clamp(min=count))
            torch.cat([positions.index_select(0, indices_of_block), self._out_padding[count:]], out=indices)

    def block(self, nodes: Tensor) -> Block:
        transposed = None if self._transposed is None else (_alias(self._transposed[0]), _alias(self._transposed[1]))
        edge_ids = None if self._edge_ids is None else _alias(self._edge_ids)
        indptr, indices = _alias(self._indptr), _alias(self._indices)
        return Block(None, indptr, indices, edge_ids, nodes[: self.num_src], self.num_src, self.num_dst, transposed)


class PaddedBlocks:
    """A buffer for batches of NodeLoader."""

    def __init__(self, shape: PaddedShape, like: Any) -> None:
        sample, x, labels = self._parts(like)
        device = sample.input_nodes.device
        self._has_features = not isinstance(like, BlockBatch)
        self._rows = _Rows(shape, device)
        self._seeds = _Seeds(shape.nodes[0], labels, device)
        self._nodes = torch.zeros(self._rows.total, dtype=torch.int64, device=device)
        self._x = None if x is None else x.new_zeros(self._rows.total, x.shape[1])
        self._blocks = [_PaddedBlock(shape, self._rows, hop, block) for hop, block in enumerate(sample.blocks[::-1])]

    @staticmethod
    def _parts(item: Any) -> tuple[BlockBatch, Tensor | None, Tensor | None]:
        return (item, None, None) if isinstance(item, BlockBatch) else item

    @classmethod
    def sizes_of(cls, item: Any) -> BatchSizes:
        return BatchSizes.of_blocks(cls._parts(item)[0].blocks)

    def copy(self, item: Any) -> None:
        sample, x, labels = self._parts(item)
        sizes = BatchSizes.of_blocks(sample.blocks)
        if self._x is not None and x is not None:
            self._rows.copy(self._x, x, sizes)
        self._rows.copy_ids(self._nodes, sample.input_nodes, sizes)
        positions = self._rows.positions(sizes, small=True)
        for buffer, block in zip(self._blocks, sample.blocks[::-1]):
            buffer.copy(block, positions, sizes)
        self._seeds.copy(labels, sample.input_id, sample.loss_scale)

    def batch(self) -> Any:
        """What was copied last, as new tensors of the same memory."""
        nodes = _alias(self._nodes)
        sample = BlockBatch(nodes, nodes[: len(self._seeds.mask)], [buffer.block(nodes) for buffer in self._blocks[::-1]])
        sample.input_id = _alias(self._seeds.input_id)
        _Seeds.describe(sample, _alias(self._seeds.mask), _alias(self._seeds.count), _alias(self._seeds.loss_scale))
        if not self._has_features:
            return sample
        labels = self._seeds.labels
        return sample, None if self._x is None else _alias(self._x), None if labels is None else _alias(labels)

    @classmethod
    def unpadded(cls, item: Any) -> Any:
        given = cls._parts(item)[0]
        sample = BlockBatch(*given)
        sample.input_id = given.input_id
        _Seeds.describe_unpadded(sample, len(given.output_nodes), given.loss_scale, given.output_nodes.device)
        return sample if isinstance(item, BlockBatch) else (sample, *item[1:])
