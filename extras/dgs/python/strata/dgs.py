# SPDX-License-Identifier: Apache-2.0
"""Dist-GPU-sampling's names: importing this module loads libdgs.so, as torch.ops.load_library(strata.dgs.library) does.

    import strata.dgs

    strata.dgs.create_communicator()                      # or _CAPI_get_unique_id and _CAPI_set_nccl, as before
    tensor = torch.classes.dgs_classes.ChunkTensor([100], torch.int64, capacity_per_gpu=200)
    rows, cols = torch.ops.dgs_ops._CAPI_sample_neighbors(seeds, indptr, indices, 10, False)
"""

from __future__ import annotations

import pathlib
import statistics
import time
from typing import Any, NamedTuple

import torch
import torch.distributed as distributed

from strata._dgs_blocks import BlockBuffer, BlockRooms, SampledBlocks, mean_and_own_rows, sample_blocks
from strata._torch import let_groups_end, require_torch

__all__ = [
    "BlockBuffer",
    "BlockRooms",
    "ChunkTensor",
    "LoadingFactors",
    "SampledBlocks",
    "close",
    "create_communicator",
    "library",
    "loading_factors",
    "mean_and_own_rows",
    "sample_blocks",
]

#: The path of libdgs.so.
library = str(pathlib.Path(__file__).with_name("libdgs.so"))

require_torch()
let_groups_end()
torch.ops.load_library(library)  # type: ignore[no-untyped-call]

ChunkTensor = torch.classes.dgs_classes.ChunkTensor


def create_communicator(group: Any = None) -> None:
    """Makes the ranks of a torch.distributed group, or all of them, the ranks that share tensors. Collective over the group.

    They must be on one host; several hosts have a group each (torch.distributed.new_subgroups). Without torch.distributed, this
    process is the only rank.
    """
    if not distributed.is_initialized():
        torch.ops.dgs_ops._CAPI_set_nccl(1, torch.ops.dgs_ops._CAPI_get_unique_id(), 0)
        return
    rank = distributed.get_rank(group)
    ids = [torch.ops.dgs_ops._CAPI_get_unique_id() if rank == 0 else None]
    distributed.broadcast_object_list(ids, 0 if group is None else distributed.get_global_rank(group, 0), group)
    torch.ops.dgs_ops._CAPI_set_nccl(distributed.get_world_size(group), ids[0], rank)


class LoadingFactors(NamedTuple):
    """Seconds per row that a rank reads from a tier of a ChunkTensor; None where the tier has none of the rows."""

    local: float | None
    remote: float | None
    host: float | None


def loading_factors(tensor: Any, num_rows: int, batch: int = 1 << 17, repeats: int = 5) -> LoadingFactors:
    """Measures what a random row costs from each tier: this rank's GPU, other GPUs, and host memory.

    What compute_loading_factor was there for: whether it pays to keep more rows of one tensor or of another on the GPUs. Reads
    `batch` rows of a tier at a time, `repeats` times, and takes the median. `num_rows` are the tensor's. Not collective; where
    all ranks measure at once, they share the links as they do in training.

        local, remote, host = strata.dgs.loading_factors(features, len(nodes))
    """
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    tiers = tensor._CAPI_split_index(torch.randint(num_rows, (4 * batch,), device=device))

    def seconds(ids: torch.Tensor) -> float | None:
        if len(ids) == 0:
            return None
        ids = ids.repeat(-(-batch // len(ids)))[:batch]
        times = []
        for _ in range(repeats + 1):  # the first one warms up
            start = _now(device)
            tensor._CAPI_index(ids)
            times.append((_now(device) - start) / batch)
        return statistics.median(times[1:])

    return LoadingFactors(*map(seconds, tiers))


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def close() -> None:
    """Leaves the group, after all ChunkTensors are dropped or closed. Collective. A process that ends need not call it."""
    torch.ops.dgs_ops._CAPI_close()
