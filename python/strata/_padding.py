# SPDX-License-Identifier: Apache-2.0
"""Batches in buffers of fixed shapes, where a recorded step finds them.

BatchPadder of C++ says how padding lies: each hop has room for more nodes than most batches find, and padding edges join its
`spare` last rows, which no batch fills.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strata import _core
from strata._arrays import current_stream
from strata._attributes import RESERVED
from strata._process import process
from strata.errors import InputError
from strata.batches import Block, BlockBatch

if TYPE_CHECKING:
    from torch_geometric.data import Data

Kind = _core.PaddedArray.Kind
_IGNORED = -100  # the label that torch's cross_entropy ignores


@dataclass(frozen=True)
class BatchSizes:
    """Nodes that each hop found, seeds first, and the edges of each hop."""

    nodes: tuple[int, ...]
    edges: tuple[int, ...]

    @staticmethod
    def of_data(batch: Data) -> BatchSizes:
        if "num_sampled_nodes" not in batch:
            raise InputError("batches of other edges than the sampled ones cannot be padded", 'Take subgraph_type="directional".')
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


class _Buffers:
    """The tensors of a padded batch, which are filled together."""

    def __init__(self, shape: PaddedShape, device: torch.device) -> None:
        self.shape = shape
        self.num_nodes = sum(shape.nodes)
        self._device = device
        self._tensors: list[Tensor] = []
        self._arrays: list[_core.PaddedArray] = []
        self._padder: _core.BatchPadder | None = None

    def add(self, kind: _core.PaddedArray.Kind, tensor: Tensor, *, hop: int = 0, fill: int = 0) -> Tensor:
        self._tensors.append(tensor)
        self._arrays.append(_core.PaddedArray.make(kind, _arrays_of(tensor), hop, fill))
        return tensor

    def ids(self, kind: _core.PaddedArray.Kind, count: int, *, dtype: torch.dtype = torch.int64, hop: int = 0) -> Tensor:
        return self.add(kind, torch.zeros(count, dtype=dtype, device=self._device), hop=hop)

    def copy(self, sizes: BatchSizes, sources: Sequence[Tensor | None]) -> None:
        """A tensor of the batch for each that was added, in this order."""
        if self._padder is None:
            self._padder = _core.BatchPadder.make(
                process(),
                nodes=list(self.shape.nodes),
                edges=list(self.shape.edges),
                spare=list(self.shape.spare),
                arrays=self._arrays,
            )
        given = [None if source is None else _like(source, out) for source, out in zip(sources, self._tensors)]
        arrays = [(0, 0) if source is None else (source.data_ptr(), source.shape[0]) for source in given]
        self._padder.pad(process(), list(sizes.nodes), list(sizes.edges), arrays, current_stream())


def _arrays_of(tensor: Tensor) -> Any:
    """Its stubs know arrays by NumPy's types; tensors go in by DLPack."""
    return tensor


def _like(source: Tensor, out: Tensor) -> Tensor:
    """The same in the other's type, dense, where the other lies."""
    if source.device != out.device:
        raise InputError(f"a batch has a tensor on {source.device}, where those before lay on {out.device}", "Move it there.")
    if source.shape[1:] != out.shape[1:]:
        raise InputError(
            f"a batch has a tensor of shape {list(source.shape)}, where those before had {list(out.shape[1:])} per row",
            "Give batches of the loader as they come.",
        )
    if source.dtype == out.dtype and source.is_contiguous() and not source.requires_grad:
        return source
    return source.detach().to(out.dtype).contiguous()


class _Seeds:
    """Labels of seeds, and the mask that separates seeds from padding."""

    def __init__(self, buffers: _Buffers, labels: Tensor | None, device: torch.device) -> None:
        room = buffers.shape.nodes[0]
        self.labels = None
        if labels is not None:
            fill = 0 if labels.is_floating_point() else _IGNORED
            self.labels = buffers.add(Kind.seeds, labels.new_full((room, *labels.shape[1:]), fill), fill=fill)
        self.mask = buffers.ids(Kind.seed_mask, room, dtype=torch.bool)
        self.input_id = buffers.ids(Kind.seeds, room)
        self.count = torch.zeros((), device=device)
        self.loss_scale = torch.zeros((), device=device)
        self.sum_scale = torch.zeros((), device=device)

    def sources(self, labels: Tensor | None, input_id: Tensor) -> list[Tensor | None]:
        return [*([] if self.labels is None else [labels]), None, input_id]

    def set_numbers(self, count: int, batch: Any) -> None:
        self.count.fill_(count)
        self.loss_scale.fill_(batch.loss_scale)
        self.sum_scale.fill_(batch.sum_scale)

    def describe(self, batch: Any) -> None:
        batch.seed_mask, batch.num_seeds = _alias(self.mask), _alias(self.count)
        batch.loss_scale, batch.sum_scale = _alias(self.loss_scale), _alias(self.sum_scale)

    @staticmethod
    def describe_unpadded(batch: Any, count: int, like: Any, device: torch.device) -> None:
        """The same for a batch without padding, so that a step finds the same in both."""
        number = torch.full((), count, dtype=torch.float32, device=device)
        batch.seed_mask, batch.num_seeds = torch.ones(count, dtype=torch.bool, device=device), number
        batch.loss_scale, batch.sum_scale = torch.full_like(number, like.loss_scale), torch.full_like(number, like.sum_scale)


def _alias(tensor: Tensor) -> Tensor:
    """The same memory as another tensor: what layers keep about a tensor they keep for one call then."""
    return tensor.detach()


class PaddedData:
    """A buffer for batches of NeighborLoader."""

    def __init__(self, shape: PaddedShape, like: Data) -> None:
        device = like.edge_index.device
        self._shape = shape
        self._buffers = buffers = _Buffers(shape, device)
        self._seeds = _Seeds(buffers, like.y if "y" in like else None, device)
        self._x = _padded_rows(buffers, like.x) if "x" in like else None
        self._ids = {name: buffers.ids(Kind.nodes, buffers.num_nodes) for name in ("n_id", "original_ids")}
        self._edge_index = torch.zeros(2, sum(shape.edges), dtype=torch.int64, device=device)
        for kind, ends in zip((Kind.all_sources, Kind.all_ends), self._edge_index):
            buffers.add(kind, ends)
        self._e_id = buffers.ids(Kind.all_edges, sum(shape.edges)) if "e_id" in like else None
        self._attributes: dict[str, Tensor] = {}
        self._whole: dict[str, Any] = {}
        for name in [name for name in like.keys() if name not in RESERVED and name != "x"]:
            self._add_attribute(like, name)

    def _add_attribute(self, like: Data, name: str) -> None:
        """Rows of nodes or edges that batches bring along, by PyG's own rules; or what belongs to the whole graph."""
        of_edges = like.is_edge_attr(name)
        if not of_edges and not like.is_node_attr(name):
            self._whole[name] = like[name]
            return
        if like.__cat_dim__(name, like[name]) != 0:
            raise InputError(f"{name} of batches cannot be padded: its rows are columns", "Leave it out of the graph.")
        kind, rows = (Kind.all_edges, sum(self._shape.edges)) if of_edges else (Kind.nodes, self._buffers.num_nodes)
        self._attributes[name] = self._buffers.add(kind, like[name].new_zeros((rows, *like[name].shape[1:])))

    def copy(self, batch: Data) -> None:
        sources = self._seeds.sources(batch.y if "y" in batch else None, batch.input_id)
        if self._x is not None:
            sources.append(batch.x)
        sources += [*(batch[name] for name in self._ids), *batch.edge_index]
        if self._e_id is not None:
            sources.append(batch.e_id)
        sources += [batch[name] for name in self._attributes]
        self._buffers.copy(BatchSizes.of_data(batch), sources)
        self._seeds.set_numbers(batch.batch_size, batch)

    def batch(self) -> Data:
        """The last copied batch, as new tensors of the same memory."""
        from torch_geometric.data import Data

        data = Data(edge_index=_alias(self._edge_index), num_nodes=self._buffers.num_nodes)
        named = (("x", self._x), ("y", self._seeds.labels), ("e_id", self._e_id), *self._ids.items(), *self._attributes.items())
        for name, tensor in named:
            if tensor is not None:
                data[name] = _alias(tensor)
        for name, value in self._whole.items():
            data[name] = value
        data.input_id = _alias(self._seeds.input_id)
        data.batch_size = self._shape.nodes[0]
        data.num_sampled_nodes, data.num_sampled_edges = list(self._shape.nodes), list(self._shape.edges)
        self._seeds.describe(data)
        return data

    sizes_of = staticmethod(BatchSizes.of_data)

    @staticmethod
    def unpadded(batch: Data) -> Data:
        data = copy.copy(batch)
        _Seeds.describe_unpadded(data, batch.batch_size, batch, batch.edge_index.device)
        return data


def _padded_rows(buffers: _Buffers, like: Tensor) -> Tensor:
    return buffers.add(Kind.nodes, like.new_zeros((buffers.num_nodes, *like.shape[1:])))


class _PaddedBlock:
    """A buffer for the block of one hop, whose destinations are the nodes of hops 0 to `hop`."""

    def __init__(self, buffers: _Buffers, hop: int, like: Block) -> None:
        shape, room = buffers.shape, buffers.shape.edges[hop]
        self.num_dst, self.num_src = sum(shape.nodes[: hop + 1]), sum(shape.nodes[: hop + 2])
        self._indptr = buffers.ids(Kind.starts, self.num_dst + 1, hop=hop)
        self._indices = buffers.ids(Kind.sources, room, dtype=torch.int32, hop=hop)
        self._edge_ids = buffers.ids(Kind.edges, room, hop=hop) if like.edge_ids is not None else None
        self._transposed = None
        if like.transposed is not None:
            starts = buffers.ids(Kind.out_starts, self.num_src + 1, hop=hop)
            self._transposed = starts, buffers.ids(Kind.out_ends, room, dtype=torch.int32, hop=hop)

    def sources(self, block: Block) -> list[Tensor | None]:
        found: list[Tensor | None] = [block.indptr, block.indices]
        if self._edge_ids is not None:
            found.append(block.edge_ids)
        if self._transposed is not None and block.transposed is not None:
            found += block.transposed
        return found

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
        self._buffers = buffers = _Buffers(shape, device)
        self._seeds = _Seeds(buffers, labels, device)
        self._nodes = buffers.ids(Kind.nodes, buffers.num_nodes)
        self._x = None if x is None else _padded_rows(buffers, x)
        self._blocks = [_PaddedBlock(buffers, hop, block) for hop, block in enumerate(sample.blocks[::-1])]

    @staticmethod
    def _parts(item: Any) -> tuple[BlockBatch, Tensor | None, Tensor | None]:
        return (item, None, None) if isinstance(item, BlockBatch) else item

    @classmethod
    def sizes_of(cls, item: Any) -> BatchSizes:
        return BatchSizes.of_blocks(cls._parts(item)[0].blocks)

    def copy(self, item: Any) -> None:
        sample, x, labels = self._parts(item)
        sources = [*self._seeds.sources(labels, sample.input_id), sample.input_nodes]
        if self._x is not None:
            sources.append(x)
        for buffer, block in zip(self._blocks, sample.blocks[::-1]):
            sources += buffer.sources(block)
        self._buffers.copy(BatchSizes.of_blocks(sample.blocks), sources)
        self._seeds.set_numbers(len(sample.output_nodes), sample)

    def batch(self) -> Any:
        """The last copied batch, as new tensors of the same memory."""
        nodes = _alias(self._nodes)
        sample = BlockBatch(nodes, nodes[: len(self._seeds.mask)], [buffer.block(nodes) for buffer in self._blocks[::-1]])
        sample.input_id = _alias(self._seeds.input_id)
        self._seeds.describe(sample)
        if not self._has_features:
            return sample
        labels = self._seeds.labels
        return sample, None if self._x is None else _alias(self._x), None if labels is None else _alias(labels)

    @classmethod
    def unpadded(cls, item: Any) -> Any:
        given = cls._parts(item)[0]
        sample = BlockBatch(*given)
        sample.input_id = given.input_id
        _Seeds.describe_unpadded(sample, len(given.output_nodes), given, given.output_nodes.device)
        return sample if isinstance(item, BlockBatch) else (sample, *item[1:])
