# SPDX-License-Identifier: Apache-2.0
"""The errors of Strata. Each message has what failed, the remedy, and the rank."""

from __future__ import annotations

import re


class StrataError(RuntimeError):
    """Any error of Strata.

    Attributes:
        remedy: what to do about it; empty if there is nothing to suggest.
        rank, host: where it was raised; rank -1 before the ranks are known.
        is_echo: whether another rank failed, and this one only heard of it.
    """

    def __init__(self, message: str, remedy: str = "", is_echo: bool = False) -> None:
        message, remedy = in_python(message), in_python(remedy)
        super().__init__(f"{message}\n  {remedy}" if remedy else message)
        self.remedy = remedy
        self.is_echo = is_echo
        from strata._process import place

        self.rank, self.host = place()


class InputError(StrataError, ValueError):
    """Input that cannot be used: an argument, a file, its contents."""


class OutOfMemory(StrataError, MemoryError):
    """Host or device memory does not suffice. The message has the bytes wanted and free."""


class IoError(StrataError):
    """The operating system or HDF5 could not read or write."""


class CudaError(StrataError):
    """A CUDA call failed."""


class CommError(StrataError):
    """Another rank failed, or what carries messages between ranks."""


def in_python(text: str) -> str:
    """Options of the programs as arguments ("--batch-size" is "batch_size"), except in commands, and what has a call as that call."""
    for pattern, meant in _CALLS:
        text = re.sub(pattern, meant, text)
    return re.sub(_COMMAND_OR_OPTION, lambda found: found[0] if found[1] is None else found[1].replace("-", "_"), text)


def _partition_call(found: re.Match[str]) -> str:
    given = dict(re.findall(rf"--([a-z-]+) ({_VALUE})", found[0]))
    source = given.pop("input")
    values = (f"{name}={value}" if value.isdecimal() else f'{name}="{value}"' for name, value in given.items())
    return f'strata.partition("{source}", {", ".join(values)})'


def _help_call(found: re.Match[str]) -> str:
    return f"help(strata.{'partition' if found[1] == 'build' else found[1]})"


_VALUE = r"[^\s;]*[^\s;.,]"
_CALLS = (
    (rf"strata-partition build --input {_VALUE}(?: --[a-z-]+ {_VALUE})+", _partition_call),
    (r"strata-partition (\w+) --help", _help_call),
    (r"strata-train --help all", lambda _: "help(strata.train)"),
)
# The words of a command go as far as punctuation.
_COMMAND_OR_OPTION = r"(?:\bstrata-[a-z]+|\blaunch/[a-z-]+|\bpip)(?: [^\s,;.()]+)*|(?<![\w-])--([a-z][a-z0-9-]*)"
