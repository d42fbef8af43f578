# SPDX-License-Identifier: Apache-2.0
"""The torch that the extensions with libtorch were built for."""

from __future__ import annotations

from strata import _core
from strata.errors import InputError


def _name(version: str, cuda: str | None) -> str:
    return f"torch {version} with CUDA {cuda.partition('.')[0]}" if cuda else f"torch {version} without CUDA"


def let_groups_end() -> None:
    """Call it before torch.distributed has a default group, whose threads destroy_process_group() ends, or should.

    Functions of torch.distributed.nn have the default group of the moment of their import as a default argument, and
    DistributedDataParallel imports them. The group then lives as long as the process, and a thread of it that frees the last
    tensor of Python while the interpreter ends aborts the process.
    """
    import torch.distributed

    if torch.distributed.is_available():
        import torch.distributed.nn  # noqa: F401


def _found_and_built() -> tuple[str, str]:
    import torch

    version, cuda = torch.__version__.partition("+")[0], torch.version.cuda
    if not _core.with_cuda:  # then both kinds of torch will do
        return f"torch {version}", f"torch {_core.torch_version}"
    return _name(version, cuda), _name(_core.torch_version, _core.torch_cuda or None)


def is_built_for_this_torch() -> bool:
    """Imports torch."""
    found, built = _found_and_built()
    return found == built


def require_torch() -> None:
    """Imports torch. InputError, in one line, if it is another than extensions are bound to."""
    found, built = _found_and_built()
    if found == built:
        return
    remedy = f"pip install torch=={_core.torch_version}, or build strata with this torch"
    error = InputError(f"strata was built for {built}, and this is {found}: {remedy}")
    error.remedy = remedy
    raise error
