# SPDX-License-Identifier: Apache-2.0
"""Calls of functions on other ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from strata.rpc import _pickles, _session
from strata.rpc._references import RRef, call_method

if TYPE_CHECKING:
    from strata import _rpc

T = TypeVar("T")
U = TypeVar("U")
Worker = str | int | _session.WorkerInfo

_WAIT_MS = 200  # between looks for Ctrl-C


class Future(Generic[T]):
    """What a call will return; several threads may wait for it."""

    def __init__(self, result: _rpc.Result) -> None:
        self._result = result
        self._lock = threading.Lock()
        self._taken = False
        self._value: T | None = None
        self._error: Exception | None = None

    def done(self) -> bool:
        return self._result.is_done()

    def wait(self) -> T:
        """What the call returned. Raises what it raised, as a RemoteError, and CommError if no answer comes in time."""
        while not self._result.wait_for(_WAIT_MS):
            pass
        with self._lock:
            if not self._taken:
                self._take()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is a T once it is taken

    value = wait

    def then(self, callback: Callable[[Future[T]], U]) -> Future[U]:
        """The future of what callback(this future) returns or raises, on a thread of the agent, once this one is done.

        Calls that it makes belong to the autograd context of the thread that calls then().
        """
        return Future(self._result.then(lambda: callback(self)))

    def _take(self) -> None:
        try:
            self._value = cast(T, self._result.take())
        except Exception as error:
            self._error = error
        self._taken = True


def wait_all(futures: Iterable[Future[T]]) -> list[T]:
    """What all return, in their order; waits for all of them before it raises the first error."""
    futures = list(futures)
    for future in futures:
        while not future._result.wait_for(_WAIT_MS):
            pass
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
    return _start(to, func, args, kwargs, timeout, waits=True).wait()


def rpc_async(
    to: Worker,
    func: Callable[..., T],
    args: Iterable[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = _session.DEFAULT_TIMEOUT,
) -> Future[T]:
    """As rpc_sync(), without waiting. CPU tensors may be changed as soon as it returns."""
    return _start(to, func, args, kwargs, timeout, waits=False)


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


def run(call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]) -> Any:
    """What the extension runs for calls of other ranks."""
    function, args, kwargs = call
    with _session.within_call():
        return function(*args, **kwargs)


def _start(
    to: Worker,
    func: Callable[..., T],
    args: Iterable[Any] | None,
    kwargs: Mapping[str, Any] | None,
    timeout: float,
    waits: bool,
) -> Future[T]:
    pickled = _pickles.dump((func, tuple(args or ()), dict(kwargs or {})))
    milliseconds = _session.milliseconds(timeout)
    return Future(_session.current().core.call(_session.rank_of(to), _name(func, args), pickled, milliseconds, waits))


def _name(func: Callable[..., Any], args: Iterable[Any] | None) -> str:
    """For messages."""
    if func is call_method and isinstance(args, tuple):
        return str(args[1])
    return getattr(func, "__qualname__", repr(func))
