# SPDX-License-Identifier: Apache-2.0
"""This process's agent: started once, ended with shutdown() or at exit."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import enum
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from strata import _core, _process
from strata.errors import CommError, InputError
from strata.rpc._extension import _rpc

DEFAULT_TIMEOUT = -1.0  # that of the options
_MOST_POLL_US = 1_000_000
_EXIT_PATIENCE_S = 10  # for calls that still run when the program ends
_AGES_MS = 365 * 24 * 3600 * 1000 // 16  # for as long as it takes: 22 days, which an int32 holds

DeviceLike = int | str | torch.device


@dataclass(frozen=True)
class WorkerInfo:
    """A rank among those that called init_rpc()."""

    name: str
    id: int


@dataclass(frozen=True)
class Traffic:
    """The amount that one channel has carried between this rank and the others: tensors, or messages on "tcp"."""

    sent_messages: int
    sent_bytes: int
    received_messages: int
    received_bytes: int


class BackendType(enum.Enum):
    """The backend argument of init_rpc(); all values mean the only one."""

    TENSORPIPE = "TENSORPIPE"


class Options:
    """Options of this rank's agent. TensorPipeRpcBackendOptions is another name of this class.

    Args:
        num_worker_threads: calls that run at a time on this rank; those that wait for other calls do not count.
        rpc_timeout: seconds for a call, from its start to its answer; 0: as long as it takes.
        init_method: None or "env://": ranks find each other as MASTER_ADDR and MASTER_PORT say, or through mpirun.
        device_maps: what set_device_map() would be called with, by peer.
        devices: all devices of this rank that maps may have; None: any.
        channels: what tensors may take: "cuda-ipc", "shared-memory", "nccl", "tcp"; None: all. Two ranks take the first one in
            this order that both allow and have.
        landing_bytes: memory through which this rank's tensors reach others of its machine; the least of all ranks counts.
            What finds no room there passes in pieces. None: 128 MiB.
        busy_poll_us: microseconds for which a thread that waits for a message, for work or for an answer looks for it before it
            sleeps. None: 200 where this rank has three cores more than torch.get_num_threads(), else 0.

    Raises:
        InputError, which is a ValueError, if one of these cannot be meant.
    """

    def __init__(
        self,
        *,
        num_worker_threads: int = 16,
        rpc_timeout: float = 60.0,
        init_method: str | None = None,
        device_maps: Mapping[str, Mapping[DeviceLike, DeviceLike]] | None = None,
        devices: Sequence[DeviceLike] | None = None,
        channels: Sequence[str] | None = None,
        landing_bytes: int | None = None,
        busy_poll_us: int | None = None,
    ) -> None:
        if init_method not in (None, "env://"):
            raise InputError(
                f"strata.rpc knows no init_method {init_method!r}", "Set MASTER_ADDR and MASTER_PORT, or use mpirun."
            )
        if num_worker_threads < 1:
            raise InputError(f"num_worker_threads is {num_worker_threads}", "Give at least 1.")
        if isinstance(channels, str) or (channels is not None and not channels):
            raise InputError(f"channels is {channels!r}", 'Give a list such as ["shared-memory", "tcp"], or None for all.')
        if landing_bytes is not None and landing_bytes < 0:
            raise InputError(f"landing_bytes is {landing_bytes}", "Give a number of bytes, such as 128 << 20.")
        if busy_poll_us is not None and not 0 <= busy_poll_us <= _MOST_POLL_US:
            raise InputError(f"busy_poll_us is {busy_poll_us}", f"Give 0 to {_MOST_POLL_US} microseconds, or None.")
        self.num_worker_threads = num_worker_threads
        self.rpc_timeout = rpc_timeout
        self.init_method = init_method
        self.channels = None if channels is None else list(channels)
        self.landing_bytes = landing_bytes
        self.busy_poll_us = busy_poll_us
        self.devices: list[torch.device] | None = None
        self.device_maps: dict[str, dict[torch.device, torch.device]] = {}
        if devices is not None:
            self.set_devices(devices)
        for peer, pairs in (device_maps or {}).items():
            self.set_device_map(peer, pairs)
        self._core()  # which refuses unknown channels

    def set_devices(self, devices: Sequence[DeviceLike]) -> None:
        """Names this rank's GPUs that calls use, instead of those named before."""
        self.devices = [_device(each) for each in devices]

    def set_device_map(self, to: str, device_map: Mapping[DeviceLike, DeviceLike]) -> None:
        """Says which of the peer's GPUs stand for which of this rank's: {0: 1}, {"cuda:0": "cuda:1"}. Each call adds."""
        known = self.device_maps.setdefault(to, {})
        for mine, its in device_map.items():
            device = _device(mine)
            if known.get(device, _device(its)) != _device(its):
                raise InputError(
                    f"the device map for {to} has {device} -> {known[device]} already, and {_device(its)} was added"
                )
            known[device] = _device(its)

    def _core(self) -> _rpc.Options:
        core = _rpc.Options()
        core.threads = self.num_worker_threads
        core.set_timeout(_milliseconds(self.rpc_timeout))
        core.set_channels(self.channels or [])
        if self.landing_bytes is not None:
            core.landing_bytes = self.landing_bytes
        if self.busy_poll_us is not None:
            core.set_busy_poll(self.busy_poll_us)
        for peer, pairs in _maps_of(self):
            core.set_device_map(peer, pairs)
        return core


TensorPipeRpcBackendOptions = Options


@dataclass
class Session:
    core: _rpc.Session
    options: Options
    workers: list[WorkerInfo]
    ranks: dict[str, int]  # by name
    pid: int = field(default_factory=os.getpid)
    ending: threading.Thread | None = None


class _State:
    session: Session | None = None
    started = threading.Event()  # set while there is a session
    in_call = threading.local()
    left: list[_rpc.Session] = []  # ended, with calls that were still at work


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: Options | None = None,
) -> None:
    """Joins this process to those that call each other. Collective over all ranks.

    Args:
        name: of this rank, which others call it by: at most 127 letters, digits and _ : -
        backend: may be left out, because there is one; BackendType.TENSORPIPE stands for it, too.
        rank, world_size: may be left out where mpirun, srun or torchrun started the process.
        rpc_backend_options: threads, timeout, device maps and channels of this rank.

    Raises:
        InputError on all ranks alike if names or device maps are wrong.
    """
    if _State.session is not None:
        raise InputError("strata.rpc.init_rpc() was called before", "Call rpc.shutdown() first.")
    if backend not in (None, BackendType.TENSORPIPE):
        raise InputError(f"strata.rpc knows no backend {backend!r}", "Leave it out, or give rpc.BackendType.TENSORPIPE.")
    options = rpc_backend_options or Options()
    core_options = options._core()
    with _as_launched(rank, world_size):
        ranks = _join(rank, world_size)
        core = _rpc.Session.start(ranks, name, core_options)
    workers = [WorkerInfo(core.name_of(each), each) for each in range(core.size)]
    _State.session = Session(core, options, workers, ranks={worker.name: worker.id for worker in workers})
    _State.started.set()


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Ends the calls. Collective if graceful: returns on all ranks when no call is under way anywhere.

    References are used no more after that. Without graceful, it waits only for calls that run on this rank, and those that are
    under way elsewhere fail, as do calls of this rank that wait for a future (async_execution).

    Args:
        graceful: waits for the other ranks.
        timeout: seconds to wait, after which calls that are under way fail and CommError is raised; 0: as long as it takes.
    """
    session = current()
    if getattr(_State.in_call, "depth", 0):
        raise InputError("rpc.shutdown() was called in a call of another rank", "Call it where init_rpc() was called.")
    patience = _milliseconds(timeout) / 1000
    gc.collect()  # references in cycles
    if graceful:
        _end_gracefully(session, patience)
    else:
        _end_alone(session, patience)
    _forget()


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """A rank by its name; without one, this rank."""
    session = current()
    return session.workers[session.core.rank if worker_name is None else session.core.find(worker_name)]


def traffic() -> dict[str, Traffic]:
    """The amount that each channel has carried so far between this rank and the others."""
    return {channel: Traffic(*numbers) for channel, numbers in current().core.traffic().items()}


def current() -> Session:
    session = _State.session
    if session is None:
        raise InputError(
            "there is no agent: rpc.init_rpc() was not called, or rpc.shutdown() was", "Call rpc.init_rpc() first."
        )
    if session.pid != os.getpid():
        raise InputError(
            "this process was forked from one that had called rpc.init_rpc()",
            "Start processes with torch.multiprocessing's spawn method.",
        )
    return session


def worker_of_rank(rank: int) -> WorkerInfo:
    return current().workers[rank]


def rank_of(to: str | int | WorkerInfo) -> int:
    session = current()
    if isinstance(to, WorkerInfo):
        if not 0 <= to.id < len(session.workers) or session.workers[to.id] != to:
            raise InputError(
                f"{to} is none of the workers: {', '.join(map(str, session.workers))}",
                "Take what rpc.get_worker_info() returns.",
            )
        return to.id
    name = f"rank:{to}" if isinstance(to, int) else to
    return session.ranks[name] if name in session.ranks else session.core.find(name)


def mapped_devices() -> list[DeviceLike]:
    """This rank's GPUs that tensors of other ranks come to by its device maps."""
    return list({mine: None for pairs in current().options.device_maps.values() for mine in pairs if mine.type == "cuda"})


def milliseconds(timeout: float) -> int | None:
    """The timeout of a call; None: that of the options."""
    return None if timeout == DEFAULT_TIMEOUT else _milliseconds(timeout)


@contextlib.contextmanager
def within_call() -> Iterator[None]:
    """While a call of another rank runs on this thread. Such a call may come before init_rpc() has returned."""
    _State.started.wait()
    _State.in_call.depth = getattr(_State.in_call, "depth", 0) + 1
    try:
        yield
    finally:
        _State.in_call.depth -= 1


def _milliseconds(seconds: float) -> int:
    if seconds < 0:
        raise InputError(f"a timeout of {seconds} seconds", "Give seconds, or 0 for as long as it takes.")
    return _AGES_MS if seconds == 0 else min(max(1, round(seconds * 1000)), _AGES_MS)


def _device(device: DeviceLike) -> torch.device:
    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)


def _maps_of(options: Options) -> list[tuple[str, list[tuple[int, int]]]]:
    maps = []
    for peer, pairs in options.device_maps.items():
        numbers = []
        for mine, its in pairs.items():
            if options.devices is not None and mine not in options.devices:
                raise InputError(f"the device map for {peer} has {mine}, which is not among devices={options.devices}")
            if mine.type == its.type == "cpu":  # as ever
                continue
            if mine.type != "cuda" or its.type != "cuda" or mine.index is None or its.index is None:
                raise InputError(f"the device map for {peer} has {mine} -> {its}", "Name GPUs by numbers: {0: 1}.")
            numbers.append((mine.index, its.index))
        if numbers or pairs == {}:
            maps.append((peer, numbers))
    return maps


@contextlib.contextmanager
def _as_launched(rank: int, world_size: int | None) -> Iterator[None]:
    """Sets RANK and WORLD_SIZE as a launcher would have; if joining fails, they are what they were."""
    if _process._State.process is not None or _core.find_launcher() != "none" or rank < 0 or world_size is None:
        yield
        return
    if rank >= world_size:
        raise InputError(f"init_rpc() was given rank={rank} and world_size={world_size}", "Ranks are counted from 0.")
    if world_size == 1:
        yield
        return
    if missing := [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise InputError(
            f"init_rpc() was given rank={rank} and world_size={world_size}, and the environment has no {' and no '.join(missing)}",
            "Set MASTER_ADDR and MASTER_PORT: where rank 0 listens, the same for all ranks.",
        )
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
    try:
        yield
    except BaseException:
        del os.environ["RANK"], os.environ["WORLD_SIZE"]
        raise


def _join(rank: int, world_size: int | None) -> Any:
    """A capsule of the ranks, for the agent only; None: this one only."""
    launcher = _core.find_launcher()
    if _process._State.process is not None or launcher == "mpi":
        process = _process.process()
        found, ranks = (process.rank, process.size), process.ranks()
    elif launcher == "torch":
        from strata._ranks import backend

        found, ranks = (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])), backend(ends_with_others=False)
    else:
        found, ranks = (0, 1), None
    for what, given, is_given, launched in (
        ("rank", rank, rank >= 0, found[0]),
        ("world_size", world_size, world_size is not None, found[1]),
    ):
        if is_given and given != launched:
            raise InputError(
                f"init_rpc() was given {what}={given}, and what started this process says {launched}", f"Leave {what} out."
            )
    return ranks


def _end_gracefully(session: Session, patience: float) -> None:
    """Ends gracefully on a thread of its own, so that Ctrl-C reaches this one."""
    from strata.rpc._references import drop_all

    errors: list[BaseException] = []

    def end() -> None:
        try:
            session.core.shutdown(drop_all)
        except BaseException as error:
            errors.append(error)

    session.ending = threading.Thread(target=end, name="strata.rpc.shutdown", daemon=True)
    session.ending.start()
    deadline = time.monotonic() + patience
    while session.ending.is_alive() and time.monotonic() < deadline:
        session.ending.join(0.2)
    late = session.ending.is_alive()
    if late:
        session.core.end_within(0)  # which ends the wait of that thread
        session.ending.join()
    if not errors:
        return
    _end_alone(session, _EXIT_PATIENCE_S)
    _forget()
    if late:
        raise CommError(f"rpc.shutdown() waited for {patience:g} s, and calls or references were left") from errors[0]
    raise errors[0]


def _end_alone(session: Session, patience: float) -> None:
    """Ends the agent, and waits for calls that run here."""
    deadline = time.monotonic() + patience
    while not session.core.end_within(200):  # in between Ctrl-C is heard
        if time.monotonic() > deadline:
            print(
                f"strata: rpc: calls of other ranks still run on {session.workers[session.core.rank].name} (rank {session.core.rank}) "
                f"{patience:g} s after the end of its agent; no call waits for them any more",
                file=sys.stderr,
            )
            _State.left.append(session.core)
            return


def _forget() -> None:
    _State.started.clear()
    _State.session = None


@atexit.register
def _end_at_exit() -> None:
    session = _State.session
    if session is not None and session.pid != os.getpid():
        return
    try:
        if session is not None:
            _end_alone(session, _EXIT_PATIENCE_S)
            if session.ending is not None:
                session.ending.join()
            _forget()
    finally:
        if all(core.end_within(0) for core in _State.left):
            _rpc.close_interpreter()
        else:
            _process.leave_at_exit()


def _leak() -> None:
    """Leaks the agent in a forked process, which lacks its threads: nothing must wait for them."""
    if _State.session is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_State.session.core))


os.register_at_fork(after_in_child=_leak)
