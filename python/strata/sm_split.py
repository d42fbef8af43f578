# SPDX-License-Identifier: Apache-2.0
"""Shares of a GPU's multiprocessors for loading and for training, in one process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from strata import _arguments, _core
from strata._process import process, refuse_forks
from strata.errors import InputError

if TYPE_CHECKING:
    import torch


class SmSplit:
    """SMs of this process's GPU that load batches, and SMs that train on them.

        split = strata.SmSplit(loading=10, training=90)
        loader.run_on(split)
        with split.training():
            for batch in loader: ...

    No result changes. Green contexts of CUDA do it, which need a driver of CUDA 12.5 and do not exist under MPS; docs/training.md
    says what it gains.

    Args:
        loading, training: percent of the SMs, 1 to 100, in units of 8 SMs on Hopper. If they add up to more than 100, they overlap.

    Attributes:
        loading_sms, training_sms: how many they are.
        loading_stream, training_stream: torch.cuda.Stream, whose kernels run there.

    Raises:
        InputError: the process computes on the CPU, or a share is not within 1 and 100.
        CudaError: the driver or the GPU does not allow it.
    """

    def __init__(self, loading: int, training: int) -> None:
        refuse_forks()
        for name, share in (("loading", loading), ("training", training)):
            if not 1 <= _arguments.integer(share, name, -(1 << 31)) <= 100:
                raise InputError(f"{name}={share} is no percentage of SMs", "Give 1 to 100.")
        if not process().device.startswith("cuda"):
            raise InputError("SMs are shares of a GPU, and this process computes on the CPU", "Leave SmSplit out here.")
        self._core = _core.SmSplit.make(process(), loading=loading, training=training)
        self.loading_sms: int = self._core.loading_sms
        self.training_sms: int = self._core.training_sms

    def __repr__(self) -> str:
        return f"strata.SmSplit(loading_sms={self.loading_sms}, training_sms={self.training_sms})"

    @property
    def loading_stream(self) -> torch.cuda.Stream:
        """The stream with kernels on the SMs for loading."""
        return self._stream(self._core.loading_stream)

    @property
    def training_stream(self) -> torch.cuda.Stream:
        """The stream with kernels on the SMs for training."""
        return self._stream(self._core.training_stream)

    def _stream(self, handle: int) -> torch.cuda.Stream:
        import torch

        return torch.cuda.ExternalStream(handle)  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Torch's kernels run on the SMs for training; before and after, streams wait for each other."""
        import torch

        outer, inner = torch.cuda.current_stream(), self.training_stream
        inner.wait_stream(outer)
        with torch.cuda.stream(inner):
            yield
        outer.wait_stream(inner)
