# SPDX-License-Identifier: Apache-2.0
"""Arrays of _core as torch's tensors, and the stream that they are made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata._indices import as_tensor
from strata._process import process
from strata.errors import InputError

if TYPE_CHECKING:
    import torch


def to_torch(array: Any) -> torch.Tensor:
    """The same memory as a tensor."""
    import torch

    # Given the array itself, torch would also look up its current stream, for which arrays are ready already.
    return torch.utils.dlpack.from_dlpack(array.__dlpack__(max_version=(1, 0)))


def to_numpy(array: Any) -> Any:
    """The same memory, on the CPU, as an array of NumPy."""
    import numpy

    return numpy.from_dlpack(array)


def on_device(values: Any, device: torch.device) -> torch.Tensor:
    """A tensor of numbers of the host; a GPU copies them when its stream comes to it, for which the host does not wait."""
    import torch

    made = torch.tensor(values)
    return made.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else made


def current_stream() -> int:
    """torch's current stream on this process's device, as a number; 0 on the CPU."""
    device = process().device
    if not device.startswith("cuda"):
        return 0
    import torch

    return torch.cuda.current_stream(torch.device(device)).cuda_stream


def host_array(value: Any, name: str) -> Any:
    """A C-ordered NumPy array of a tensor, array or list; the same memory where it can be."""
    import numpy

    if hasattr(value, "__dlpack__") and not isinstance(value, (numpy.ndarray, numpy.generic)):
        value = as_tensor(value).cpu()  # a tensor, or what another library has
        if str(value.layout) != "torch.strided":
            raise InputError(f"{name} is a {value.layout} tensor", f"Give a dense one: {name}.to_dense().")
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    try:
        array = numpy.ascontiguousarray(value)
    except ValueError as error:  # rows of several lengths
        raise InputError(f"{name} makes no array: {error}", "Give a tensor, an array, or lists of one length.") from None
    if array.dtype.kind not in "iufb":
        raise InputError(f"{name} is of type {array.dtype}", "Give numbers: float32, float16, int64 or bool.")
    return array


def ids_array(value: Any, name: str) -> Any:
    """The same for integers, as int64."""
    array = host_array(value, name)
    if array.dtype.kind not in "iu" and array.size > 0:
        raise InputError(f"{name} is of type {array.dtype}", "Give ids as integers.")
    return array.astype("int64", copy=False)


def list_of_ids(value: Any, name: str) -> Any:
    """The same in one dimension."""
    array = ids_array(value, name)
    if array.ndim != 1:
        raise InputError(f"{name} has the shape {array.shape}", f"Give ids in one dimension: {name}.flatten().")
    return array
