# SPDX-License-Identifier: Apache-2.0
"""The ways in which functions answer calls of other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from strata.errors import InputError
from strata.rpc import _session

__all__ = ["async_execution"]

F = TypeVar("F", bound=Callable[..., Any])


def async_execution(fn: F) -> F:
    """Decorates a function that returns a torch.futures.Future: a caller on another rank gets what that future gets.

        @rpc.functions.async_execution
        def update(gradient):
            ...
            return self.next_model            # a torch.futures.Future(), whose set_result() another call will call

    Calls that wait for their futures take no thread from others. Of a static method or one of a class, it is the inner decorator.
    """
    if isinstance(fn, (staticmethod, classmethod)):
        raise InputError(
            f"@async_execution above @{type(fn).__name__}", f"Write @{type(fn).__name__} above @rpc.functions.async_execution."
        )
    fn.__dict__["_strata_returns_future"] = True
    return fn


def answer_of(function: Callable[..., Any], result: Any) -> Any:
    """The answer to a call of the function that has returned the result."""
    if not getattr(function, "_strata_returns_future", False):
        return result
    if not isinstance(result, torch._C.Future):  # what torch.futures.Future.then() returns is no torch.futures.Future
        name = getattr(function, "__qualname__", repr(function))
        raise InputError(
            f"{name} is decorated with @async_execution and returned a {type(result).__name__}",
            "Return a torch.futures.Future, such as that of rpc_async().",
        )
    signal = _session.current().core.signal()  # which the end of the agent ends
    result.add_done_callback(lambda _: signal.set())
    signal.wait()
    return result.wait()
