# SPDX-License-Identifier: Apache-2.0
"""The device "unified" of torch, whose tensors lie in host memory and are indexed by the GPU."""

from __future__ import annotations

import pathlib
import types
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strata._process import process
from strata.errors import InputError
from strata.unified_tensor import UnifiedTensor

if TYPE_CHECKING:
    from torch import Tensor

NAME = "unified"


class _State:
    library: Any = None  # holds what is registered with torch


def is_enabled() -> bool:
    """Whether this process has the device "unified"."""
    return _State.library is not None


def enable_unified_device() -> None:
    """Makes "unified" a device of torch in this process, for good: its PrivateUse1 name, of which torch has one.

        strata.enable_unified_device()
        u = features.to(device="unified")       # a copy in host memory
        rows = u[index]                         # on the GPU, which reads them in place; index on CPU or GPU
        back = u.cpu()

    Indexing by one tensor, torch.index_select and torch.nn.functional.embedding give their result on this process's GPU, or on
    the CPU where there is none. `u[index] = rows` writes. Slices are views. Everything else runs on the CPU and gives tensors of
    this device; views of a part are gathered by the CPU. Unlike strata.unified(), to() copies, as torch's do.

    torch 2.11 cannot run backward passes on a GPU in a process that has a PrivateUse1 device (its engine fails with an internal
    assertion), which a warning says: there it is for loading and inference, and strata.unified(tensor) for training.
    InputError if another package has taken the name.
    """
    import torch
    from torch.utils.backend_registration import rename_privateuse1_backend

    from strata._torch import require_torch

    if is_enabled():
        return
    require_torch()
    if process().device.startswith("cuda"):
        warnings.warn(
            'torch cannot run backward passes on a GPU in a process that has the device "unified"; to train, use strata.unified(tensor)',
            stacklevel=2,
        )
    taken = torch._C._get_privateuse1_backend_name()
    if taken != "privateuseone":
        raise InputError(f"torch's PrivateUse1 device is {taken!r} already", "Use strata.unified(tensor), which needs no device.")
    torch.ops.load_library(str(pathlib.Path(__file__).parent / "_unified_device.so"))  # type: ignore[no-untyped-call]
    torch.ops.strata_unified.register_hooks()
    rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _device_module())  # type: ignore[no-untyped-call]
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for operator, kernel in {
        "index.Tensor": _index,
        "index_select": _index_select,
        "index_select.out": _index_select_out,
        "embedding": _embedding,
    }.items():
        library.impl(operator, kernel, "PrivateUse1")
    _State.library = library


def _device_module() -> types.ModuleType:
    """What torch asks of a device."""
    module = types.ModuleType(f"torch.{NAME}")
    answers = {
        "is_available": True,
        "is_initialized": True,
        "_is_in_bad_fork": False,
        "device_count": 1,
        "current_device": 0,
        "synchronize": None,
        "manual_seed_all": None,
    }
    for name, answer in answers.items():
        setattr(module, name, lambda *_, answer=answer: answer)
    return module


def _on_cpu(tensor: Tensor) -> Tensor:
    """The same memory."""
    import torch

    made: Tensor = torch.ops.strata_unified.on_cpu(tensor)
    return made


def _rows_of(tensor: Tensor) -> UnifiedTensor | None:
    """A whole storage as rows, registered with CUDA once and as long as it lives; None for a part of one."""
    whole = tensor.dim() > 0 and tensor.is_contiguous() and tensor.nbytes == tensor.untyped_storage().nbytes()
    if not whole:
        return None
    storage: Any = tensor.untyped_storage()
    kind = (tensor.dtype, tuple(tensor.shape))
    made: tuple[Any, UnifiedTensor] | None = getattr(storage, "_strata_rows", None)
    if made is None:
        made = storage._strata_rows = (kind, UnifiedTensor(_on_cpu(tensor)))
    return made[1] if made[0] == kind else None


def _rows(tensor: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """[*index.shape, *tensor.shape[1:]] on this process's device; `index` int64 or int32, negative ones from the end."""
    import torch

    ids = index.reshape(-1)
    shape = (*index.shape, *tensor.shape[1:])
    rows = _rows_of(tensor)
    if rows is None:
        found = _on_cpu(tensor)[ids.cpu()].to(process().device)
        return found.view(shape) if out is None else out.copy_(found)
    if out is not None:
        selected: Tensor = torch.index_select(rows, 0, ids, out=out)  # type: ignore[call-overload]
        return selected
    return rows[torch.where(ids < 0, ids + len(tensor), ids)].view(shape)


def _index(tensor: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    import torch

    only = indices[0] if len(indices) == 1 else None
    if tensor.device.type != NAME:  # indexed by a tensor of this device
        return tensor[tuple(slice(None) if index is None else index.cpu() for index in indices)]
    if only is None or only.dtype == torch.bool and only.dim() != 1:
        places = tuple(slice(None) if index is None else index.cpu() for index in indices)
        return _on_cpu(tensor)[places].to(process().device)
    if only.dtype in (torch.bool, torch.uint8):
        if only.shape != tensor.shape[:1]:
            raise IndexError(f"a mask of shape {tuple(only.shape)} for {len(tensor)} rows")
        only = only.nonzero().view(-1)
    return _rows(tensor, only)


def _index_select(tensor: Tensor, dim: int, index: Tensor) -> Tensor:
    if dim in (0, -tensor.dim()):
        return _rows(tensor, index)
    return _on_cpu(tensor).index_select(dim, index.cpu()).to(process().device)


def _index_select_out(tensor: Tensor, dim: int, index: Tensor, *, out: Tensor) -> Tensor:
    if dim in (0, -tensor.dim()) and out.device.type != NAME:
        return _rows(tensor, index, out)
    return out.copy_(_index_select(tensor, dim, index))


def _embedding(
    tensor: Tensor, index: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    return _rows(tensor, index)
