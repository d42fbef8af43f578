# SPDX-License-Identifier: Apache-2.0
"""What ranks exchange over the default group of torch.distributed, where it takes tensors."""

from __future__ import annotations

import torch
import torch.distributed as distributed
from torch import Tensor

from strata._process import process
from strata.errors import InputError


def size_of_group(user: str) -> int:
    """The number of ranks, 1 without a group; `user` is who needs it, for an error if this is one of several ranks without."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    if process().size > 1:
        raise InputError(f"{user} by torch.distributed, which has no group", "Call strata.init_process_group() before.")
    return 1


def device_of_group() -> torch.device:
    """Where the group takes tensors."""
    return (
        torch.device("cuda", torch.cuda.current_device()) if "nccl" in str(distributed.get_backend()) else torch.device("cpu")
    )


def gathered(tensor: Tensor) -> Tensor:
    """All ranks' tensors of one shape, one after the other."""
    parts = [torch.empty_like(tensor) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)
