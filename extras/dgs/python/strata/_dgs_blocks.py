# SPDX-License-Identifier: Apache-2.0
"""Mini-batches of ChunkTensors as the layers of strata.nn take them; public in strata.dgs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from strata.errors import InputError
from strata.nn import EdgeLists, ops


@dataclass(frozen=True)
class SampledBlocks:
    """The nodes and the edges of a mini-batch.

    Attributes:
        nodes: distinct ids, the seeds first. The destinations of a block are the first of them.
        blocks: an EdgeLists per layer, from the inputs to the seeds.
        inputs_by_id: whether the first block reads rows by the ids of nodes; see sample_blocks().
    """

    nodes: Tensor
    blocks: tuple[EdgeLists, ...]
    inputs_by_id: bool

    @property
    def num_nodes(self) -> tuple[int, ...]:
        """The seeds, and then the nodes after each hop; the last hop does not count if its inputs are by id."""
        hops = self.blocks[:0:-1] if self.inputs_by_id else self.blocks[::-1]
        return (*(block.num_dst for block in hops), len(self.nodes))

    @property
    def num_edges(self) -> tuple[int, ...]:
        """Number of edges per block, that of the seeds first."""
        return tuple(block.num_edges for block in reversed(self.blocks))


def sample_blocks(
    seeds: Tensor,
    indptr: Any,
    indices: Any,
    fanouts: Sequence[int],
    probs: Any = None,
    *,
    inputs_by_id: bool = False,
    input_gradients: bool = True,
) -> SampledBlocks:
    """Samples all hops of a mini-batch at once: what the samplers and _CAPI_tensor_relabel give hop by hop, ready for strata.nn.

        sample = strata.dgs.sample_blocks(seeds, indptr, indices, [15, 10, 5])
        x = features._CAPI_index(sample.nodes)
        for conv, block in zip(convs, sample.blocks):
            x = conv(x, block)

    With `inputs_by_id`, the first block reads rows of all nodes by their ids, and nothing is gathered. It has two lists for each
    destination: its neighbors, and itself. Their means stand side by side, as a SAGEConv's first products want them:

        table = features._CAPI_get_sub_device_tensor().view(num_nodes, -1)      # if all rows lie on this GPU
        rows = strata.dgs.mean_and_own_rows(table, sample.blocks[0])            # [nodes, 2 * columns]

    Args:
        seeds: distinct ids, int32 or int64.
        indptr, indices, probs: ChunkTensors of one dimension; `probs` may be left out.
        fanouts: neighbors per node and layer, the last of the seeds; -1 for all, without `probs`. Without replacement.
        inputs_by_id: for graphs of less than 2^31 nodes.
        input_gradients: False where the first layer needs no gradient of its rows, as SAGEConv does not; GATConv does.

    Waits for the GPU twice per hop, so it is best called on a thread and a stream of its own. Not collective.
    """
    nodes, *lists = torch.ops.dgs_ops.sample_blocks(
        seeds, indptr, indices, probs, list(reversed(fanouts)), inputs_by_id, input_gradients
    )
    by_hop = list(zip(*lists))
    sources = [len(starts) - 1 for starts, *_ in by_hop[1:]] + [len(nodes)]
    if inputs_by_id:
        sources[-2:] = [len(nodes), indptr.size() - 1][-len(sources) :]
    made = (_lists(num_src, *tensors) for num_src, tensors in zip(sources, by_hop))
    return SampledBlocks(nodes, tuple(made)[::-1], inputs_by_id)


def _lists(num_src: int, starts: Tensor, ends: Tensor, out_starts: Tensor, out_ends: Tensor) -> EdgeLists:
    lists = EdgeLists(num_src, len(starts) - 1, starts, ends)
    if len(out_starts) > 0:
        lists._out_lists = out_starts, out_ends
    return lists


def mean_and_own_rows(table: Tensor, block: EdgeLists) -> Tensor:
    """[nodes, 2 * columns]: of each destination of a first block `inputs_by_id`, the mean of its neighbors' rows, 0 without any,
    and its own row. The table is float32 or bfloat16. Without gradients.
    """
    means: Tensor = ops.sum_over_edges(
        table, block.indptr, block.indices, None, block.inverse_counts(), None, None, None, None, None
    )
    return means.view(-1, 2 * table.shape[1])


@dataclass(frozen=True)
class BlockRooms:
    """Numbers of nodes and edges that a BlockBuffer has room for, as SampledBlocks counts them."""

    nodes: tuple[int, ...]
    edges: tuple[int, ...]

    @staticmethod
    def around(samples: Iterable[SampledBlocks], margin: float = 0.04) -> BlockRooms:
        """Room for the largest of some mini-batches, and a share of `margin` more."""
        samples = list(samples)
        if not samples:
            raise InputError("there are no mini-batches to measure", "Give one or more.")

        def room(counts: Iterable[int]) -> int:
            return -int(-(1 + margin) * max(counts) // 8) * 8

        nodes = [room(counts) for counts in zip(*(sample.num_nodes for sample in samples))]
        nodes[0] = max(sample.num_nodes[0] for sample in samples)
        return BlockRooms(tuple(nodes), tuple(room(counts) for counts in zip(*(sample.num_edges for sample in samples))))

    def holds(self, sample: SampledBlocks) -> bool:
        """Whether there is room for it."""
        return all(count <= room for count, room in zip(sample.num_nodes, self.nodes)) and all(
            count <= room for count, room in zip(sample.num_edges, self.edges)
        )


class BlockBuffer:
    """Memory of fixed shapes for mini-batches, so that a recorded step (torch.cuda.graph) finds each of them in the same place.

        buffer = strata.dgs.BlockBuffer(strata.dgs.BlockRooms.around(samples), samples[0])
        if buffer.holds(sample):
            buffer.copy(sample)

    Rows behind those of a mini-batch have no edges, and no edge leads to them: what layers compute there reaches no seed and has
    no gradient. They are `nodes[len(sample.nodes):]`, which keep what was there before, 0 at first, and so name nodes of the graph.
    Make a loss of the seeds only: cross_entropy ignores labels of -100.
    """

    def __init__(self, rooms: BlockRooms, like: SampledBlocks) -> None:
        self.rooms = rooms
        self.nodes = like.nodes.new_zeros(rooms.nodes[-1])
        self._inputs_by_id = like.inputs_by_id
        sizes = list(zip(rooms.nodes[1:], rooms.nodes))
        if like.inputs_by_id:
            sizes.append((like.blocks[0].num_src, 2 * rooms.nodes[-1]))
        self._lists = [
            _ListsBuffer(*size, edges, block) for size, edges, block in zip(sizes, rooms.edges, reversed(like.blocks))
        ]

    def holds(self, sample: SampledBlocks) -> bool:
        """Whether there is room for it."""
        return self.rooms.holds(sample)

    def copy(self, sample: SampledBlocks) -> None:
        """Asynchronous on torch's current stream. InputError without room for it."""
        if not self.holds(sample) or sample.inputs_by_id != self._inputs_by_id:
            raise InputError(
                f"a mini-batch of {sample.num_nodes} nodes and {sample.num_edges} edges does not fit into {self.rooms}",
                "Ask holds() first, and take those that do not fit as they are.",
            )
        self.nodes[: len(sample.nodes)].copy_(sample.nodes)
        for buffer, block in zip(self._lists, reversed(sample.blocks)):
            buffer.copy(block)

    def blocks(self) -> tuple[EdgeLists, ...]:
        """The lists in this memory, from the inputs to the seeds. Layers keep what they make of an EdgeLists: each step takes new ones."""
        return tuple(buffer.lists() for buffer in reversed(self._lists))


class _ListsBuffer:
    """One block, with its out-lists if the one that it is `like` has some."""

    def __init__(self, num_src: int, num_dst: int, edges: int, like: EdgeLists) -> None:
        def make(rows: int) -> tuple[Tensor, Tensor]:
            starts = torch.zeros(rows + 1, dtype=torch.int64, device=like.indptr.device)
            return starts, torch.zeros(edges, dtype=torch.int32, device=starts.device)

        self._sizes = num_src, num_dst
        self._in_lists = make(num_dst)
        self._out_lists = make(num_src) if like._out_lists is not None else None

    def copy(self, block: EdgeLists) -> None:
        _copy_lists((block.indptr, block.indices), self._in_lists)
        if self._out_lists is not None:
            _copy_lists(block.out_lists(), self._out_lists)

    def lists(self) -> EdgeLists:
        lists = _PaddedLists(*self._sizes, *self._in_lists)
        lists._out_lists = self._out_lists
        return lists


class _PaddedLists(EdgeLists):
    """A block that keeps only some of its edges in `indices`."""

    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        raise InputError(
            "a layer needs the gradient of its sources, for which the blocks in a BlockBuffer lack the lists",
            "Sample with input_gradients=True and without inputs_by_id.",
        )


def _copy_lists(lists: tuple[Tensor, Tensor], to: tuple[Tensor, Tensor]) -> None:
    (starts, ends), (to_starts, to_ends) = lists, to
    to_starts[: len(starts)].copy_(starts)
    to_starts[len(starts) :].fill_(len(ends))
    to_ends[: len(ends)].copy_(ends)
