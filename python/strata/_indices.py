# SPDX-License-Identifier: Apache-2.0
"""Indices between brackets for things that have rows, as torch's tensors take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from strata._process import process

if TYPE_CHECKING:
    import torch

_REMEDY = "Give integers as a list, an array or a tensor, a mask of bool, a slice, or one integer."


class Rows(NamedTuple):
    """The rows that an index names."""

    ids: torch.Tensor  # int64 or int32 [n], contiguous, on the CPU or this process's device
    shape: tuple[int, ...]  # of the index, which the result begins with; () of one row
    is_mask: bool = False


def rows_of(index: Any, num_rows: int, what: str) -> Rows:
    """The rows of a slice, an integer, a mask, or integers in any shape, of torch, NumPy, DLPack or lists.

    IndexError, with a remedy, for anything else. One integer may count from the end; of several, no row is below 0. `what` the
    rows are called: "nodes".
    """
    import torch

    if isinstance(index, slice):
        ids = torch.arange(*index.indices(num_rows))
        return Rows(ids, tuple(ids.shape))
    if isinstance(index, tuple):
        raise IndexError("an index of several dimensions\n  Take rows first, then columns of them: rows[ids][:, columns].")
    ids = _tensor(index)
    is_mask = ids.dtype == torch.bool
    if is_mask:
        if ids.shape != (num_rows,):
            raise IndexError(f"a mask of shape {tuple(ids.shape)} for {num_rows} {what}\n  Give one truth value for each of the {what}.")
        ids = ids.nonzero().view(-1)
    elif ids.numel() > 0 and (ids.dtype == torch.uint8 or ids.is_floating_point() or ids.is_complex()):
        raise IndexError(f"an index of {ids.dtype}\n  Give integers as int64 or int32, or a mask as bool.")
    if ids.dtype not in (torch.int64, torch.int32):
        ids = ids.long()
    if ids.dim() == 0 and -num_rows <= ids < 0:
        ids = ids + num_rows
    return Rows(ids.reshape(-1).contiguous(), tuple(ids.shape), is_mask)


def _tensor(index: Any) -> torch.Tensor:
    try:
        made = as_tensor(index)
    except (TypeError, ValueError, RuntimeError, BufferError, OverflowError):
        raise IndexError(f"an index of type {type(index).__name__}\n  {_REMEDY}") from None
    return made.to(process().device) if made.is_cuda else made.cpu()


def as_tensor(value: Any) -> torch.Tensor:
    """The same memory, where it can be, of an array of NumPy, of an object with __dlpack__, or of what NumPy makes an array of."""
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach()
    if hasattr(value, "__dlpack__") and not isinstance(value, (numpy.ndarray, numpy.generic)):
        imported: torch.Tensor = torch.utils.dlpack.from_dlpack(value)
        return imported
    return torch.from_numpy(numpy.require(value, requirements=["C", "W"]))
