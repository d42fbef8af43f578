# SPDX-License-Identifier: Apache-2.0
"""The training of bench.py: mini-batches are made ahead on a thread and a stream of their own; on a GPU, a step is recorded as a
CUDA graph for each buffer, and replayed."""

from __future__ import annotations

import argparse
import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

import strata.dgs

MEASURED = 16  # mini-batches, for the shapes of buffers
NO_LABEL = -100  # what cross_entropy ignores


class Batch(NamedTuple):
    """What a step is given: features of the input nodes, edges from the inputs to the seeds, and labels of the seeds."""

    x: torch.Tensor | None  # None: the first layer reads the graph's own
    layers: Sequence[Any]
    y: torch.Tensor


class Output(NamedTuple):
    loss: torch.Tensor
    scores: torch.Tensor
    labels: torch.Tensor


class Buffer:
    """A mini-batch in memory of fixed shapes."""

    def __init__(self, rooms: strata.dgs.BlockRooms, like: strata.dgs.SampledBlocks, graph: Any) -> None:
        self.blocks = strata.dgs.BlockBuffer(rooms, like)
        self.graph = graph
        device, rows = like.nodes.device, rooms.nodes[-1]
        self.x = None if like.inputs_by_id else torch.zeros(rows, graph.num_features, device=device)
        self.y = torch.full((rooms.nodes[0],), NO_LABEL, device=device)

    def fill(self, sample: strata.dgs.SampledBlocks, seeds: torch.Tensor) -> None:
        self.blocks.copy(sample)
        if self.x is not None:
            self.graph.features.index_into(sample.nodes, self.x)
        self.y[: len(seeds)].copy_(self.graph.labels_of(seeds))
        self.y[len(seeds) :].fill_(NO_LABEL)

    def batch(self) -> Batch:
        return Batch(self.x, self.blocks.blocks(), self.y)


class Agreement:
    """Whether something holds on all ranks. It is asked when this is made; all ranks make theirs in the same order."""

    def __init__(self, holds: bool, group: Any = None) -> None:
        self.flag = torch.tensor([holds], dtype=torch.int32)
        self.asked: Any = None if group is None else dist.all_reduce(self.flag, dist.ReduceOp.MIN, group=group, async_op=True)

    def holds(self) -> bool:
        if self.asked is not None:
            self.asked.wait()
        return bool(self.flag)


class Slot:
    """A place for a mini-batch that was made ahead."""

    def __init__(self, buffer: Buffer | None, on_gpu: bool) -> None:
        self.buffer = buffer
        self.batch: Batch | None = None  # one that is in no buffer
        self.all_fit = Agreement(False)  # the batches of all ranks, into their buffers
        self.recording: Any = None
        self.output: Output | None = None  # of the recording
        self.ready: Any = torch.cuda.Event() if on_gpu else None
        self.used: Any = torch.cuda.Event() if on_gpu else None

    def made(self) -> Batch:
        """Wherever it is. For one step: layers keep what they make of the lists."""
        if self.batch is not None:
            return self.batch
        assert self.buffer is not None
        return self.buffer.batch()


Make = Callable[[Slot, torch.Tensor], None]


def made_ahead(make: Make, work: Iterable[torch.Tensor], slots: Sequence[Slot], device: torch.device) -> Iterator[Slot]:
    """Slots in the order of the work. On a GPU `make` runs on a thread and a stream of its own, and may be all slots but one ahead;
    a slot is made anew when the stream that takes it has done what it was given before it took the next."""
    if device.type != "cuda" or len(slots) == 1:
        for seeds in work:
            make(slots[0], seeds)
            yield slots[0]
        return
    free: queue.SimpleQueue[Any] = queue.SimpleQueue()
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for slot in slots:
        free.put(slot)

    def run() -> None:
        torch.cuda.set_device(device)
        stream = torch.cuda.Stream(priority=-1)  # its kernels are short, and many wait for them
        stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(stream):
            for seeds in work:
                if (slot := free.get()) is None:
                    return
                stream.wait_event(slot.used)
                make(slot, seeds)
                slot.ready.record(stream)
                made.put(slot)

    def run_and_tell() -> None:
        try:
            run()
            made.put(None)
        except BaseException as error:
            made.put(error)

    thread = threading.Thread(target=run_and_tell)
    thread.start()
    try:
        while (slot := made.get()) is not None:
            if isinstance(slot, BaseException):
                raise slot
            torch.cuda.current_stream().wait_event(slot.ready)
            yield slot
            slot.used.record()
            free.put(slot)
    finally:
        free.put(None)
        thread.join()


class Trainer:
    """Steps of a model on mini-batches of a graph."""

    def __init__(self, machine: Any, graph: Any, model: torch.nn.Module, options: argparse.Namespace) -> None:
        self.machine = machine
        self.graph = graph
        self.model = model
        self.fanouts = [int(word) for word in options.fan_out.split(",")]
        self.num_slots = options.ahead + 1
        self.slots: list[Slot] = []
        self.to_warm_up = 3 if dist.get_world_size() == 1 else 11  # DistributedDataParallel wants that many
        self.group = dist.new_group(backend="gloo") if dist.get_world_size() > 1 else None  # of the threads that make batches
        on_gpu = machine.on_gpu
        self.side: Any = torch.cuda.Stream() if on_gpu else None
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.001, weight_decay=5e-4, fused=on_gpu, capturable=on_gpu)

    def measure(self, work: Iterable[torch.Tensor]) -> None:
        """Samples some mini-batches, for the shapes of the buffers that they are put into."""
        buffers: list[Buffer | None] = [None] * self.num_slots
        if self.graph.has_buffers:
            samples = [self.sample(seeds) for seeds in itertools.islice(work, MEASURED)]
            rooms = strata.dgs.BlockRooms.around(samples)
            buffers = [Buffer(rooms, samples[0], self.graph) for _ in range(self.num_slots)]
        self.slots = [Slot(buffer, self.machine.on_gpu) for buffer in buffers]

    def outputs(self, work: Iterable[torch.Tensor]) -> Iterator[Output]:
        """Trains on the mini-batches of these seeds; gives what each step gave. The next step may use the memory again."""
        for slot in made_ahead(self.make, work, self.slots, self.machine.device):
            # Ranks send each other something in a step, so all of them replay it, or none.
            yield self.buffered_step(slot) if slot.all_fit.holds() else self.step(slot.made())

    def sample(self, seeds: torch.Tensor) -> Any:
        return self.graph.sample(seeds.to(self.machine.device, non_blocking=True), self.fanouts)

    def make(self, slot: Slot, seeds: torch.Tensor) -> None:
        slot.batch = None
        seeds = seeds.to(self.machine.device, non_blocking=True)
        sample = self.sample(seeds)
        fits = slot.buffer is not None and slot.buffer.blocks.holds(sample)
        slot.all_fit = Agreement(fits, self.group if slot.buffer is not None else None)
        if slot.buffer is not None and fits:
            slot.buffer.fill(sample, seeds)
        else:
            slot.batch = self.graph.batch(sample, seeds)

    def step(self, batch: Batch) -> Output:
        scores = self.model(batch.x, batch.layers, self.graph.table)
        loss = cross_entropy(scores, batch.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return Output(loss.detach(), scores.detach(), batch.y)

    def buffered_step(self, slot: Slot) -> Output:
        if not self.machine.on_gpu:
            return self.step(slot.made())
        if self.to_warm_up > 0:
            self.to_warm_up -= 1
            return self.warm_up(slot.made())
        output = self.record(slot) if slot.output is None else slot.output
        slot.recording.replay()
        return output

    def warm_up(self, batch: Batch) -> Output:
        """One step on a stream of its own, as recording wants it."""
        here = torch.cuda.current_stream()
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            output = self.step(batch)
        here.wait_stream(self.side)
        return output

    def record(self, slot: Slot) -> Output:
        """What replays of the slot's step will give. Recordings share their memory: none runs beside another."""
        pools = (other.recording.pool() for other in self.slots if other.recording is not None)
        recording = torch.cuda.CUDAGraph()
        # The thread that makes batches goes on calling CUDA meanwhile.
        with torch.cuda.graph(recording, pool=next(pools, None), capture_error_mode="thread_local"):
            slot.output = self.step(slot.made())
        slot.recording = recording
        return slot.output
