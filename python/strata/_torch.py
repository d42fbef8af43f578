# SPDX-License-Identifier: Apache-2.0
"""The torch that the extensions with libtorch were built for."""

from __future__ import annotations

from strata import _core
from strata.errors import InputError


def _name(version: str, cuda: str | None) -> str:
    return f"torch {version} with CUDA {cuda.partition('.')[0]}" if cuda else f"torch {version} without CUDA"


def require_torch() -> None:
    """Imports torch. InputError, in one line, if it is another than extensions are bound to."""
    import torch

    version, cuda = torch.__version__.partition("+")[0], torch.version.cuda
    found, built = _name(version, cuda), _name(_core.torch_version, _core.torch_cuda or None)
    if not _core.with_cuda:  # then both kinds of torch will do
        found, built = f"torch {version}", f"torch {_core.torch_version}"
    if found == built:
        return
    remedy = f"pip install torch=={_core.torch_version}, or build strata with this torch"
    error = InputError(f"strata was built for {built}, and this is {found}: {remedy}")
    error.remedy = remedy
    raise error
