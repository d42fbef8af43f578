# SPDX-License-Identifier: Apache-2.0
"""This process among the ranks of a run: made once, closed at exit in the order in which things depend on each other."""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
import traceback
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from strata import _core, _torch

T = TypeVar("T")
_LOOPBACK = "127.0.0.1"
_TORCH_CAME_FIRST = "torch" in sys.modules  # with an OpenMP that does not see what importing strata sets

# Seconds that a rank whose program has ended waits for the others to end theirs.
_PATIENCE_FAILED = 3  # with an exit code that is not 0, until it ends the run
_PATIENCE = 600  # with 0, until it says what it waits for: another rank may write or evaluate something by itself


class Closable(Protocol):
    def close(self) -> None: ...


class _State:
    process: _core.Process | None = None
    log_level = "warn"
    choices: dict[str, str | int] = {}  # of init(), other than the defaults
    open: weakref.WeakSet[Any] = weakref.WeakSet()
    leaves_at_exit = False  # because threads of this process do not end
    pid = os.getpid()
    said: set[str] = set()


def first_time(what: str) -> bool:
    """Whether nobody in this process asked for it before, for what is said once."""
    is_first = what not in _State.said
    _State.said.add(what)
    return is_first


def init(device: str = "auto", ranks_per_machine: int = 0) -> _core.Process:
    """Joins the ranks of the run; `load` and its like do it with the defaults. Collective.

    Args:
        device: what this rank computes on: "auto" (a GPU if there is one), "cpu", "cuda", or "cuda:1", one that it sees. "auto" and
            "cuda" are torch's current device in a process that is one rank on its own, else another GPU for each rank of a host.
        ranks_per_machine: N makes virtual machines of N ranks each out of a host; 0: a machine is a host.
    """
    if _State.process is not None:
        from strata.errors import InputError

        raise InputError("strata.init() was called before", "Call it once, before the first graph is loaded.")
    backend = None
    launcher = _core.find_launcher()
    if launcher == "torch":
        backend = _backend_of_torch()
    device = _device_for_torch(device)
    chosen = _current_gpu(device) if launcher == "none" else device
    _State.process = _core.Process.start(backend, chosen, ranks_per_machine)
    _State.pid = os.getpid()
    _State.choices = {
        name: value
        for name, value, usual in (("device", device.partition(":")[0], "auto"), ("ranks_per_machine", ranks_per_machine, 0))
        if value != usual
    }
    set_log_level(_State.log_level)
    if _TORCH_CAME_FIRST:
        _core.log(
            "torch was imported before strata: unless OMP_WAIT_POLICY=passive was set before that, threads of OpenMP spin while they "
            "wait, which takes cores from loading where few are free"
        )
    sys.excepthook = _end_other_ranks(sys.excepthook)
    os.register_at_fork(after_in_child=_leak)
    _warn_if_alone(_State.process)
    return _State.process


def _device_for_torch(device: str) -> str:
    """The CPU where torch could not take tensors that lie on the GPU, as a warning says; InputError if a GPU was asked for."""
    if device == "cpu" or _core.device_count() == 0 or (found := _torch.without_our_cuda()) is None:
        return device
    if device != "auto":
        from strata.errors import InputError

        raise InputError(f"strata computes with CUDA {_core.torch_cuda}, and this is {found}", f"pip install torch=={_core.torch_version}")
    warnings.warn(f"loaders work on the CPU: strata computes with CUDA {_core.torch_cuda}, and this is {found}", stacklevel=3)
    return "cpu"


def _current_gpu(device: str) -> str:
    """The GPU that torch.cuda.set_device() chose, for a rank on its own that is given no GPU by number."""
    torch: Any = sys.modules.get("torch")
    if device not in ("auto", "cuda") or torch is None or not torch.cuda.is_initialized() or _core.device_count() == 0:
        return device
    return f"cuda:{torch.cuda.current_device()}"


def _warn_if_alone(process: _core.Process) -> None:
    """Warns of processes that only torch.distributed knows as ranks: each would load the graph by itself."""
    distributed: Any = sys.modules.get("torch.distributed")
    if process.size > 1 or distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    if (ranks := distributed.get_world_size()) > 1:
        warnings.warn(
            f"torch.distributed has {ranks} ranks here, and Strata one, which shares no graph and no seeds with others. Set RANK, "
            "WORLD_SIZE, MASTER_ADDR and MASTER_PORT in every process before it uses Strata, as torchrun does",
            stacklevel=2,
        )


def set_log_level(level: str) -> None:
    """Sets which messages go to stderr: "debug", "info" (what is chosen and why), "warn" (the default), "error" or "off"."""
    current = _State.process
    _core.init_log(f"rank {current.rank}" if current is not None and current.size > 1 else "", level)
    _State.log_level = level


def log_level() -> str:
    return _State.log_level


def choices() -> dict[str, str | int]:
    """The arguments of init() that differ from its defaults."""
    return dict(_State.choices)


def join(device: str, ranks_per_machine: int) -> _core.Process:
    """This process; joins the ranks with these choices if that has not happened."""
    if _State.process is None:
        return init(device, ranks_per_machine)
    return process()


def process() -> _core.Process:
    """This process: rank, size, host, device, machine. Joins the ranks if that has not happened."""
    if _State.process is None:
        return init()
    refuse_forks()
    return _State.process


def refuse_forks() -> None:
    """A forked process has neither the threads nor the GPU of the one that it was forked from."""
    if _State.process is None or _State.pid == os.getpid():
        return
    from strata.errors import InputError

    raise InputError(
        "this process was forked from one that uses Strata",
        "Make the graph in the forked process only, or start it by torch.multiprocessing's spawn method, which graphs can be handed "
        "to. Loaders need no worker processes: num_workers=0.",
    )


def together(work: Callable[[], T]) -> T:
    """Returns what `work` returns. Collective: if it raises on one rank all ranks raise, the others an InputError that names that rank."""
    if process().size == 1:
        return work()
    own: Exception | None = None
    try:
        made = work()
    except Exception as raised:
        own = raised
    try:
        process().share_error(None if own is None else str(own))
    except Exception:
        if own is not None:
            raise own from None
        raise
    return made


def _leak() -> None:
    """Leaks objects in a forked process: code that ends threads must never run there, because it would wait for threads that do not exist."""
    import ctypes

    if _State.process is None:
        return
    for kept in (_State.process, *(thing._core for thing in _State.open)):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def not_for_other_processes(what: str) -> Exception:
    """The error where something is sent to another process, such as a worker of torch's DataLoader."""
    from strata.errors import InputError

    return InputError(
        f"{what} cannot be sent to another process",
        "Hand on a graph of one rank, of which the other process makes its own and its loaders, or what strata.load() takes. "
        "Loaders need no worker processes: num_workers=0.",
    )


def _backend_of_torch() -> Any:
    """The ranks of torchrun or torch.multiprocessing, which need no MPI."""
    from strata._torch import require_torch

    require_torch()
    from strata._ranks import await_left, backend

    try:
        return backend()
    except KeyboardInterrupt:
        # The thread that waits for the other ranks must not outlive what it uses.
        atexit.register(lambda: None if await_left(0) else _leave(130))
        raise


def init_process_group(backend: str | None = None, **options: Any) -> None:
    """torch.distributed.init_process_group() with Strata's ranks, whoever started them. Collective.

    Args:
        backend: "nccl" or "gloo"; by default NCCL where every rank has a GPU of its own, which it needs.
        options: further arguments of torch.distributed.init_process_group().
    """
    import torch
    import torch.distributed as distributed
    from torch._C._distributed_c10d import TCPStore

    from strata._torch import let_groups_end

    let_groups_end()
    current = process()
    if current.device.startswith("cuda"):
        torch.cuda.set_device(torch.device(current.device))
    store = None
    place = ""
    if current.rank == 0:
        store = TCPStore(_LOOPBACK, 0, current.size, is_master=True, wait_for_workers=False)
        place = json.dumps([store.port, _core.network_identity(), _own_addresses()])
    port, network, addresses = json.loads(current.broadcast(place, 0))
    if store is None:
        address = _LOOPBACK if network == _core.network_identity() else _first_that_answers(addresses, port)
        store = TCPStore(address, port, current.size, is_master=False)
    distributed.init_process_group(
        backend or ("nccl" if current.gpu_per_rank else "gloo"), store=store, rank=current.rank, world_size=current.size, **options
    )


def _own_addresses() -> list[str]:
    """The addresses at which other hosts may reach this one: the name of a host may lead nowhere, or to its loopback interface."""
    chosen = os.environ.get("MASTER_ADDR")  # of rank 0, if the launcher set it, but a shell may have kept it from another run
    return ([chosen] if chosen else []) + _core.network_addresses() + [socket.gethostname()]


def _first_that_answers(addresses: list[str], port: int) -> str:
    errors = []
    for address in addresses:
        try:
            socket.create_connection((address, port), timeout=5).close()
            return address
        except OSError as error:
            errors.append(f"{address}: {error}")
    from strata.errors import CommError

    raise CommError(
        f"rank 0 cannot be reached at port {port} of any of its addresses: {'; '.join(errors)}",
        "GLOO_SOCKET_IFNAME names the network interfaces to use; is a firewall in the way?",
    )


def place() -> tuple[int, str]:
    """Rank and host, as far as they are known."""
    if _State.process is None:
        return -1, socket.gethostname()
    return _State.process.rank, _State.process.host


def register(thing: Closable) -> None:
    """Closes `thing` at exit if nobody does before. Later ones are closed first."""
    _State.open.add(thing)


def leave_at_exit() -> None:
    """Threads of this process that are in Python do not end: once all else has ended, it must go without them."""
    _State.leaves_at_exit = True


def _end_other_ranks(hook: Any) -> Any:
    """A rank that fails would leave the others waiting for it."""

    def excepthook(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        hook(kind, error, trace)
        sys.stderr.flush()
        current = _State.process
        if current is not None and current.size > 1 and _State.pid == os.getpid():
            current.abort(130 if issubclass(kind, KeyboardInterrupt) else 1)

    return excepthook


set_log_level(_State.log_level)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _leave(code: int) -> None:
    """Ends this process now, whatever its threads do."""
    _flush()
    os._exit(code)


def _end_run(current: _core.Process, code: int) -> None:
    """Ends this process now, and the other ranks with it."""
    if current.size == 1 or _core.find_launcher() == "torch":
        # The others notice it. This process ends first, so that torch reports its error and not an echo.
        _leave(code)
    _flush()
    current.abort(code)


def _part(current: _core.Process) -> None:
    """Waits until the programs of all ranks end. One that failed does not wait for long.

    A rank that waits for this one in a call of Strata ends the run; one that works by itself takes its time.
    """
    code = _core.exit_status()
    patience = _PATIENCE_FAILED if code else _PATIENCE
    who = f"strata: the program of rank {current.rank} (host {current.host}) ended"
    all_ended = current.part(patience * 1000)
    if all_ended is None and code == 0:
        print(f"{who} {patience} s ago, and waits until those of all ranks have.", file=sys.stderr, flush=True)
        while all_ended is None:
            all_ended = current.part(_PATIENCE * 1000)
    if all_ended:
        return
    if code:
        print(
            f"{who} with exit code {code}, and other ranks' had not ended {patience} s later. The run is ended.",
            file=sys.stderr,
        )
    _end_run(current, code or 1)


@atexit.register
def _close_all() -> None:
    try:
        _close_process()
    finally:
        if _State.leaves_at_exit and _State.pid == os.getpid():
            _leave(_core.exit_status() or 1)


def _close_process() -> None:
    current = _State.process
    if current is None or _State.pid != os.getpid():
        return
    try:
        if not _core.await_left(0 if current.size > 1 else 2000):
            _end_run(current, 130)
        if current.size > 1:
            _part(current)
        for thing in sorted(_State.open, key=lambda thing: thing._number, reverse=True):
            thing.close()
        current.close()
    except BaseException:
        traceback.print_exc()
        _end_run(current, 1)
    _State.process = None
