# SPDX-License-Identifier: Apache-2.0
"""What Strata raises. Each error says what failed and what to do about it, and on which rank it was."""

from __future__ import annotations


class StrataError(RuntimeError):
    """Any error of Strata.

    Attributes:
        remedy: what to do about it; empty if there is nothing to suggest.
        rank, host: where it was raised; rank -1 before the ranks are known.
        is_echo: whether another rank failed, and this one only heard of it.
    """

    def __init__(self, message: str, remedy: str = "", is_echo: bool = False) -> None:
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
