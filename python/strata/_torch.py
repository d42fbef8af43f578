# SPDX-License-Identifier: Apache-2.0
"""The torch that the extensions with libtorch were built for."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import sys

from strata import _core
from strata.errors import InputError


def _name(version: str, cuda: str | None) -> str:
    return f"torch {version} with CUDA {cuda.partition('.')[0]}" if cuda else f"torch {version} without CUDA"


def without_our_cuda() -> str | None:
    """The name of the torch of this environment if it has not the CUDA that strata was built with; does not import torch."""
    if "torch" in sys.modules:
        version, cuda = sys.modules["torch"].__version__.partition("+")[0], sys.modules["torch"].version.cuda
    elif (spec := importlib.util.find_spec("torch")) and spec.origin:
        text = pathlib.Path(spec.origin).with_name("version.py").read_text()
        version, cuda = (
            found.group(1) if (found := re.search(rf"^{name}\b.*= *['\"]([0-9.]+)", text, re.MULTILINE)) else None for name in ("__version__", "cuda")
        )
    else:
        return None
    ours = _core.torch_cuda.partition(".")[0]
    return None if cuda and cuda.partition(".")[0] == ours else _name(version or "?", cuda)


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
