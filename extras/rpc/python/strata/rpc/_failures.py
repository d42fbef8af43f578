# SPDX-License-Identifier: Apache-2.0
"""The exceptions of calls, on their way from rank to rank."""

from __future__ import annotations

import builtins
import sys
import traceback
from typing import Any

import strata.errors
from strata.errors import StrataError

_TRACEBACK = "\n\nTraceback (most recent call last):\n"


class RemoteError(StrataError):
    """The exception of a call on the rank where it ran.

    It can be caught as what it was there, too: a ValueError of worker1 arrives as a RemoteError that is a ValueError.

    Attributes:
        type, text: of the exception there: "ValueError", "my_model.NoSuchTable".
        remote_traceback: where it was raised; empty if it was not in Python.
        rank, host, agent: where that was; -1 and empty if it was in this process, outside of any call.
        device: "cuda:1", as that rank numbers it: of the RemoteModule that was called, or of the first tensor that came on a
            GPU; empty if the call had neither.
    """

    type: str
    text: str
    remote_traceback: str
    agent: str
    device: str

    def __reduce__(self) -> Any:
        return exception_of, parts_of(self)


def parts_of(error: BaseException) -> tuple[str, str, str, int, str, str, str]:
    """Type, text, remedy, rank, host, agent and device; a rank of -1 stands for this one."""
    if isinstance(error, RemoteError):  # of a call that the call made: where it began matters
        text = error.text + error.remote_traceback
        return error.type, text, error.remedy, error.rank, error.host, error.agent, error.device
    text = str(error)
    remedy = error.remedy if isinstance(error, StrataError) else ""
    if remedy:
        text = text.removesuffix(f"\n  {remedy}")
    if error.__traceback__ is not None:
        text += _TRACEBACK + "".join(traceback.format_tb(error.__traceback__)).rstrip()
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name, text, remedy, -1, "", "", ""


def exception_of(type: str, text: str, remedy: str, rank: int, host: str, agent: str, device: str) -> RemoteError:
    said, mark, lines = text.partition(_TRACEBACK)
    place = f"on {agent} (rank {rank}, host {host}" + (f", {device})" if device else ")")
    if rank < 0:
        place = "in this process"
    error = _class_of(type)(f"{type} {place}: {text}", remedy)
    error.type, error.text, error.remote_traceback, error.agent, error.device = type, said, mark + lines, agent, device
    error.rank, error.host = rank, host
    return error


_classes: dict[str, builtins.type[RemoteError]] = {}


def _class_of(name: str) -> builtins.type[RemoteError]:
    """A RemoteError that is an exception of this name, too, if this process knows such a one."""
    if name not in _classes:
        _classes[name] = _make_class(_find(name))
    return _classes[name]


def _find(name: str) -> Any:
    module, _, kind = name.rpartition(".")
    if "::" in name:  # of C++
        return getattr(strata.errors, name.rpartition("::")[2], None)
    return getattr(sys.modules.get(module or "builtins"), kind, None)


def _make_class(kind: Any) -> builtins.type[RemoteError]:
    is_more = isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(RemoteError, kind)
    if not is_more:
        return RemoteError
    try:
        made: builtins.type[RemoteError] = type(
            f"Remote{kind.__name__}", (RemoteError, kind), {"__str__": RuntimeError.__str__}
        )
        made("")
    except TypeError:  # a class of C with members of its own, such as OSError
        return RemoteError
    made.__module__ = RemoteError.__module__
    return made
