# SPDX-License-Identifier: Apache-2.0
"""Training steps that are recorded as a CUDA graph."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from strata._process import process
from strata.errors import InputError
from strata.loaders import NeighborLoader, NodeLoader

if TYPE_CHECKING:
    import torch

    from strata._padding import BatchSizes, PaddedBlocks, PaddedData, PaddedShape

_MEASURED = 16  # batches
_MARGIN = 0.04  # by which batches may be larger than those that were measured
_PATIENCE = 8  # batches that do not fit, until shapes are measured anew


@dataclass
class StepCounts:
    """Counts of the ways in which steps of graphed() ran."""

    replayed: int = 0
    padded: int = 0
    """On padded batches without a recording: to warm up, and on the CPU."""
    unpadded: int = 0
    """On batches as they were, which were too large for the padding."""
    recorded: int = 0
    """How often the step was recorded."""


class _Way(IntEnum):
    """A way that a rank proposes for a batch; all ranks take the first of these that any of them proposes."""

    new_shape = 0
    unpadded = 1
    new_recording = 2
    padded = 3


class GraphedStep:
    """A training step that runs on padded batches, on a GPU as a CUDA graph; made by graphed()."""

    def __init__(self, step_fn: Callable[[Any], Any], loader: NeighborLoader | NodeLoader) -> None:
        self._step_fn = step_fn
        self._form = _form_of(loader)
        self._agrees = process().size > 1 and not loader._own_nodes
        self._recorder = _Recorder(step_fn) if process().device.startswith("cuda") else None
        self._pad(self._measure(loader))
        self.counts = StepCounts()

    @property
    def shape(self) -> PaddedShape:
        """Rooms for nodes and edges of each hop."""
        return self._shape

    def __call__(self, batch: Any) -> Any:
        """Returns what step_fn gives for the batch, detached and in memory of its own. Collective where the loader is."""
        return self._as_prepared(batch, self._prepared_way(batch))

    def over(self, loader: NeighborLoader | NodeLoader) -> Iterator[Any]:
        """Yields what the step gives for each batch of an epoch of the loader. Collective where the loader is.

            for loss in step.over(loader):

        does as `for batch in loader: loss = step(batch)`, and batches are padded while the one before is trained on. On a GPU that
        takes a second recording, with memory of its own.
        """
        if self._recorder is None:
            yield from map(self, loader)
            return
        yield from self._overlapped(loader)

    def _overlapped(self, loader: NeighborLoader | NodeLoader) -> Iterator[Any]:
        """Batches are made and padded on a stream of their own, in one buffer after the other."""
        import torch

        loading = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
        batches = iter(loader)
        for step in itertools.count():
            with torch.cuda.stream(loading):
                batch = next(batches, None)
            if batch is None:
                return
            training = torch.cuda.current_stream()
            way = self._prepared_way(batch)
            if way == _Way.unpadded or not self._is_warm():
                training.wait_stream(loading)
                output = self._as_prepared(batch, way)
                loading.wait_stream(training)  # before the batch's memory is used again
            else:
                buffer = self._buffer_of(step, batch)
                loading.wait_event(self._trained.get(buffer) or training.record_event())
                with torch.cuda.stream(loading):
                    buffer.copy(batch)
                training.wait_stream(loading)
                output = self._run(buffer)
            yield output

    def _is_warm(self) -> bool:
        return self._recorder is not None and self._recorder.is_warm

    def _prepared_way(self, batch: Any) -> _Way:
        """The way in which the batch runs, padded or unpadded, after changes to shapes and recordings that it asks for."""
        sizes = self._form.sizes_of(batch)
        way = self._way(sizes)
        if way == _Way.new_shape:
            self._pad(batch)
            return _Way.padded if self._agreed(self._fitting(sizes)) == _Way.padded else _Way.unpadded
        if way == _Way.new_recording and self._recorder is not None:
            self._recorder.forget()
            return _Way.padded
        return way

    def _as_prepared(self, batch: Any, way: _Way) -> Any:
        if way == _Way.unpadded:
            self.counts.unpadded += 1
            return _detached(self._step_fn(self._form.unpadded(batch)))
        self._buffers[0].copy(batch)
        return self._run(self._buffers[0])

    def _buffer_of(self, step: int, like: Any) -> Any:
        """One of two buffers that take turns."""
        if len(self._buffers) == 1:
            self._buffers.append(self._form(self._shape, like))
        return self._buffers[step % 2]

    def _run(self, buffer: Any) -> Any:
        if self._recorder is None or not self._recorder.is_warm:
            self.counts.padded += 1
            run = self._step_fn if self._recorder is None else self._recorder.warm_up
            return _detached(run(buffer.batch()))
        if not self._recorder.has_recording_of(buffer):
            self._record(self._recorder, buffer)
            self.counts.recorded += 1
        self.counts.replayed += 1
        output, self._trained[buffer] = self._recorder.replay(buffer)
        return _detached(output)

    def _record(self, recorder: _Recorder, buffer: Any) -> None:
        failure: Exception | None = None
        try:
            recorder.record(buffer)
        except Exception as error:
            failure = error
        if self._agrees and process().least(failure is None) == 0 and failure is None:
            # A replay would wait for the collectives of the rank that has no recording.
            raise InputError("another rank could not record the step", "Look at its error; the step runs on all ranks or on none.")
        if failure is not None:
            raise failure

    def _measure(self, loader: NeighborLoader | NodeLoader) -> Any:
        """The first batches of epoch 0, so that shapes, and with them roundings, repeat. Gives the one of most nodes."""
        epoch, most, like = loader._epoch, -1, None
        loader.set_epoch(0)
        for batch in itertools.islice(loader, _MEASURED):
            sizes = self._form.sizes_of(batch)
            self._largest = sizes if like is None else self._largest.larger_of(sizes)
            if sum(sizes.nodes) > most:
                most, like = sum(sizes.nodes), batch
        loader.set_epoch(epoch)
        if like is None:
            raise InputError("the loader has no batches to measure", "Give a loader with at least one seed.")
        return like

    def _pad(self, like: Any) -> None:
        from strata._padding import PaddedShape

        self._shape = PaddedShape.around(self._largest, _MARGIN)
        self._buffers: list[Any] = [self._form(self._shape, like)]
        self._trained: dict[Any, torch.cuda.Event] = {}  # by buffer: the end of its last replay
        self._misfits = 0
        if self._recorder is not None:
            self._recorder.forget()

    def _fitting(self, sizes: BatchSizes) -> _Way:
        return _Way.padded if self._shape.holds(sizes) else _Way.unpadded

    def _way(self, sizes: BatchSizes) -> _Way:
        way = self._fitting(sizes)
        if way == _Way.unpadded:
            self._largest = self._largest.larger_of(sizes)
            self._misfits += 1
        if self._misfits >= _PATIENCE:
            way = _Way.new_shape
        elif way == _Way.padded and self._recorder is not None and self._recorder.is_outdated():
            way = _Way.new_recording
        return self._agreed(way)

    def _agreed(self, way: _Way) -> _Way:
        # A recording may contain collectives, which all ranks must run, and record, in the same way.
        return _Way(process().least(way)) if self._agrees else way


class _Recorder:
    """Warms up, records, replays. Memory of a recording is its own."""

    def __init__(self, step_fn: Callable[[Any], Any]) -> None:
        self._step_fn = step_fn
        self._optimizers = _OptimizersSeen()
        self._numbers: list[dict[str, Any]] = []
        self.forget()

    def forget(self) -> None:
        # By buffer; with what the step gave, and parameters with their gradients.
        self._recordings: dict[Any, tuple[torch.cuda.CUDAGraph, Any, list[tuple[torch.Tensor, torch.Tensor | None]]]] = {}
        self._to_warm_up = _warm_up_steps()

    @property
    def is_warm(self) -> bool:
        return self._to_warm_up == 0

    def has_recording_of(self, buffer: Any) -> bool:
        return buffer in self._recordings

    def is_outdated(self) -> bool:
        """Whether a number of an optimizer, such as its learning rate, is another than was recorded."""
        return bool(self._recordings) and self._numbers != self._optimizers.numbers()

    def warm_up(self, batch: Any) -> Any:
        """One step on a stream of its own, as recording wants it."""
        import torch

        here, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(here)
        with torch.cuda.stream(side), self._optimizers.watching():
            output = _detached(self._step_fn(batch))
        here.wait_stream(side)
        self._to_warm_up -= 1
        return output

    def record(self, buffer: Any) -> None:
        """The step on the buffer's batch; runs nothing on the GPU."""
        import torch

        graph, batch = torch.cuda.CUDAGraph(), buffer.batch()
        self._numbers = self._optimizers.numbers()
        try:
            # Threads of loaders go on calling CUDA meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                output = self._step_fn(batch)
        except RuntimeError as error:
            raise InputError(
                f"the step cannot be recorded as a CUDA graph: {str(error).splitlines()[0]}",
                "Leave out what waits for the GPU (item(), print) or makes shapes of data: self-loops of PyG's GCNConv and GATConv "
                "(take strata.nn's, or add_self_loops=False), masks as indices.",
            ) from error
        self._recordings[buffer] = graph, output, self._optimizers.gradients()

    def replay(self, buffer: Any) -> tuple[Any, torch.cuda.Event]:
        """The result of the step, which the next replay overwrites, and the end of this one."""
        import torch

        graph, output, gradients = self._recordings[buffer]
        graph.replay()
        for parameter, gradient in gradients:  # another recording has them elsewhere
            parameter.grad = gradient
        return output, torch.cuda.current_stream().record_event()


def _warm_up_steps() -> int:
    """torch's page on CUDA graphs wants three, and eleven where DistributedDataParallel rebuilds its buckets."""
    import torch.distributed as distributed

    ranks = distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
    return 11 if ranks > 1 else 3


class _OptimizersSeen:
    """The optimizers that step while it watches."""

    def __init__(self) -> None:
        self._seen: list[weakref.ref[Any]] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        handle = register_optimizer_step_pre_hook(self._see)
        try:
            yield
        finally:
            handle.remove()

    def _see(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        check_optimizer(optimizer)
        if all(seen() is not optimizer for seen in self._seen):
            self._seen.append(weakref.ref(optimizer))

    def _groups(self) -> list[dict[str, Any]]:
        return [group for seen in self._seen if (optimizer := seen()) is not None for group in optimizer.param_groups]

    def numbers(self) -> list[dict[str, Any]]:
        """The numbers that a recording has as constants."""
        import torch

        return [
            {name: value for name, value in group.items() if name != "params" and not isinstance(value, torch.Tensor)}
            for group in self._groups()
        ]

    def gradients(self) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
        """Parameters and where their gradients are now."""
        return [(parameter, parameter.grad) for group in self._groups() for parameter in group["params"]]


def check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """InputError if a CUDA graph would repeat one and the same step of it."""
    import torch

    if isinstance(optimizer, torch.optim.SGD) or all(group.get("capturable", False) for group in optimizer.param_groups):
        return
    name = type(optimizer).__name__
    if all("capturable" in group for group in optimizer.param_groups):
        raise InputError(f"{name} counts its steps on the CPU, which a CUDA graph does not see", f"{name}(..., capturable=True)")
    raise InputError(f"{name} cannot be recorded in a CUDA graph", "Take SGD, or one with capturable=True, such as Adam.")


def _form_of(loader: Any) -> type[PaddedData] | type[PaddedBlocks]:
    from strata._padding import PaddedBlocks, PaddedData

    if isinstance(loader, NodeLoader):
        return PaddedBlocks
    if not isinstance(loader, NeighborLoader):
        raise InputError(f"{type(loader).__name__} is no loader of padded batches", "Give a strata.NeighborLoader or NodeLoader.")
    if loader.transform is not None:
        raise InputError("batches of a transform cannot be padded", "Make the loader without it, and call it in the step.")
    return PaddedData


def _detached(output: Any) -> Any:
    """Copies of tensors, whose memory the next replay uses again."""
    import torch

    if isinstance(output, torch.Tensor):
        return output.detach().clone()
    if isinstance(output, dict):
        return {name: _detached(value) for name, value in output.items()}
    if isinstance(output, (list, tuple)):
        copies = [_detached(value) for value in output]
        return copies if isinstance(output, list) else tuple(copies)
    return output


def graphed(step_fn: Callable[[Any], Any], loader: NeighborLoader | NodeLoader) -> GraphedStep:
    """A training step that is recorded on padded batches as a CUDA graph, and replayed: one launch instead of hundreds.

        def train_step(batch):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y)
            loss.backward()
            optimizer.step()
            return loss

        step = strata.graphed(train_step, loader)
        for batch in loader:
            loss = step(batch)

    Batches are copied into buffers whose shapes were measured on the first batches of the loader. Padding nodes have edges
    only among themselves, and come last in each hop; padding seeds have the label -100, which cross_entropy ignores:
    results are those of the batch. What a step finds in a batch beside what the loader gives:

        seed_mask    bool [batch_size], False for padding seeds; multiply losses by it that know no label to ignore
        num_seeds    float32 [], without padding; divide sums by it, not by a length
        loss_scale, sum_scale   float32 [], as of the loader

    `for loss in step.over(loader):` is faster: it pads a batch while the one before is trained on.

    batch_size and the lengths of a batch include the padding. x is 0 there and so are ids. Layers that mix all rows of a batch,
    such as BatchNorm, see the padding.

    The first steps run call by call, to warm up. A batch that does not fit runs as it is, call by call; after eight of them there is
    more room, and a new recording. `step.counts` shows how steps ran. On the CPU steps run on padded batches, without a
    recording. A step is replayed on all ranks or on none.

    Once there is a recording, step_fn is not called: what it does beside work on the GPU no longer happens. Optimizers must be
    capturable (Adam(..., capturable=True)). A learning rate that changes is recorded anew, so let a scheduler change a tensor:
    lr=torch.tensor(0.01, device="cuda"). DistributedDataParallel is made on a side stream,
    `with torch.cuda.stream(torch.cuda.Stream()):`, and over NCCL.

    Args:
        step_fn: takes a batch of the loader; gives tensors, or lists or dicts of them, or None.
        loader: whose batches will come. A NeighborLoader without `transform`, or a NodeLoader.

    Collective: all ranks make it, and take the same steps.
    """
    if not callable(step_fn):
        raise TypeError(f"step_fn is {step_fn!r}; give a function that takes a batch of the loader")
    return GraphedStep(step_fn, loader)
