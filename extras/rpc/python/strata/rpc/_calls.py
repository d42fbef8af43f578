# SPDX-License-Identifier: Apache-2.0
"""Calls of functions on other ranks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

from strata.rpc import _pickles, _session
from strata.rpc._references import RRef, call_method
from strata.rpc.functions import answer_of

if TYPE_CHECKING:
    from strata import _rpc

T = TypeVar("T")
U = TypeVar("U")
Worker = str | int | _session.WorkerInfo

_WAIT_MS = 200  # between looks for Ctrl-C


class Future(torch.futures.Future[T]):
    """The future result of a call; several threads may wait for it. torch.futures.wait_all() and collect_all() take it, too."""

    def __init__(self, result: _rpc.Result, devices: list[int | str | torch.device]) -> None:
        super().__init__(devices=devices)
        self._result = result
        self._devices = devices
        self._lock = threading.Lock()
        self._settled = False
        result.then(_Settler(self))

    def done(self) -> bool:
        """Whether the call has returned or failed, so that wait() does not wait."""
        return self._result.is_done()

    def wait(self) -> T:
        """Returns what the call returned. Raises what it raised, as a RemoteError, and CommError if no answer comes in time."""
        wait_for(self._result)
        self._settle()
        return super().wait()

    value = wait

    def then(self, callback: Callable[[Future[T]], U]) -> Future[U]:
        """The future of what callback(this future) returns or raises, on a thread of the agent, once this one is done.

        Calls that it makes belong to the autograd context of the thread that calls then(). What it returns may lie on the GPUs
        that what this future returns may lie on.
        """

        def call() -> U | _Raised:
            try:
                return callback(self)
            except Exception as error:  # of this process, and so it stays what it is
                return _Raised(error)

        return Future(self._result.then(call), self._devices)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """The same as then(), for a callback whose result is not needed; what it raises is logged."""

        def call() -> None:
            try:
                callback(self)
            except Exception:
                logging.getLogger(__name__).exception("a callback of a future failed")

        self._result.then(call)

    def _settle(self) -> None:
        """Sets torch's future from a done result; once, at its first use."""
        with self._lock:
            if self._settled:
                return
            self._settled = True
            try:
                value = self._result.take()
                if isinstance(value, _Raised):
                    raise value.error
                self.set_result(cast(T, value))
            except Exception as error:
                self.set_exception(error)  # type: ignore[arg-type]  # torch says T


@dataclass(frozen=True)
class _Raised:
    """The exception of a callback."""

    error: Exception


class _Settler:
    """A callback that settles a future even if the agent ends before it runs."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def __call__(self) -> None:
        self._future._settle()

    def __del__(self) -> None:
        self._future._settle()


def wait_for(result: _rpc.Result) -> None:
    while not result.wait_for(_WAIT_MS):
        pass


def taken(result: _rpc.Result) -> Any:
    wait_for(result)
    return result.take()


def wait_all(futures: Iterable[Future[T]]) -> list[T]:
    """Returns what all return, in their order; waits for all of them before it raises the first error."""
    futures = list(futures)
    for future in futures:
        wait_for(future._result)
    return [future.wait() for future in futures]


def rpc_sync(
    to: Worker,
    func: Callable[..., T],
    args: Iterable[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = _session.DEFAULT_TIMEOUT,
) -> T:
    """Calls func(*args, **kwargs) on another rank and waits for what it returns.

    Args:
        to: the name that the rank gave to init_rpc(), "rank:2", its rank, or its WorkerInfo.
        func: what both ranks can import; it is sent by name. Its tensors arrive as tensors, its other arguments pickled.
        timeout: in seconds, instead of that of the options; 0 waits as long as it takes.

    Raises:
        RemoteError, which is also of the class that was raised there. CommError if no answer comes in time, or the rank is
        gone. InputError for a rank that does not exist and a tensor on a device that no device map has.
    """
    return cast(T, taken(_start(to, func, args, kwargs, timeout, waits=True)))


def rpc_async(
    to: Worker,
    func: Callable[..., T],
    args: Iterable[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = _session.DEFAULT_TIMEOUT,
) -> Future[T]:
    """Calls as rpc_sync() does, without waiting. CPU tensors may be changed as soon as it returns."""
    return Future(_start(to, func, args, kwargs, timeout, waits=False), _session.mapped_devices())


def remote(
    to: Worker,
    func: Callable[..., T],
    args: Iterable[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = _session.DEFAULT_TIMEOUT,
) -> RRef[T]:
    """Calls a function or makes an object of a class on another rank, where the result stays; gives a reference.

    Does not wait. Errors come when the reference is used.
    """
    session = _session.current()
    pickled = _pickles.dump((func, tuple(args or ()), dict(kwargs or {})))
    handle = session.core.create(_session.rank_of(to), _name(func, args), pickled, _session.milliseconds(timeout))
    return RRef._of(handle)


def get_rpc_timeout() -> float:
    """The seconds that calls have, as the options of init_rpc() say; 0: as long as it takes."""
    return _session.current().options.rpc_timeout


def run(call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]) -> Any:
    """The function that the extension runs for calls of other ranks."""
    function, args, kwargs = call
    with _session.within_call():
        return answer_of(function, function(*args, **kwargs))


def _start(
    to: Worker,
    func: Callable[..., T],
    args: Iterable[Any] | None,
    kwargs: Mapping[str, Any] | None,
    timeout: float,
    waits: bool,
) -> _rpc.Result:
    pickled = _pickles.dump((func, tuple(args or ()), dict(kwargs or {})))
    milliseconds = _session.milliseconds(timeout)
    return _session.current().core.call(_session.rank_of(to), _name(func, args), pickled, milliseconds, waits)


def _name(func: Callable[..., Any], args: Iterable[Any] | None) -> str:
    """The name of a function for messages."""
    if func is call_method and isinstance(args, tuple):
        return str(args[1])
    return getattr(func, "__qualname__", repr(func))
