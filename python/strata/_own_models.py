# SPDX-License-Identifier: Apache-2.0
"""The warning that ranks train models of their own, where loaders deal them the seeds as if they trained one."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from strata import _arguments
from strata._process import first_time, process

# Modules whose users may sum gradients without torch.distributed, or train parts of one model.
_OTHERS = ("horovod", "mpi4py", "strata.rpc")


class Watch:
    """`with` it around an epoch. Warns once, on the first rank, if an optimizer stepped, and nothing can have summed gradients."""

    def __init__(self, is_first_epoch: bool) -> None:
        optimizers: Any = sys.modules.get("torch.optim.optimizer")
        watches = is_first_epoch and optimizers is not None and process().size > 1 and process().rank == 0
        self._hook = optimizers.register_optimizer_step_pre_hook(self._see) if watches else None
        self._has_stepped = False

    def _see(self, *_: Any) -> None:
        self._has_stepped = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._hook is not None:
            self._hook.remove()
        if error is None and self._has_stepped and not _can_sum() and first_time("own models"):
            warnings.warn(
                f"each of the {process().size} ranks trains a model of its own, on its share of the seeds: an optimizer steps, and "
                "torch.distributed, which would sum gradients, is not initialized. For one model, call strata.init_process_group(), wrap "
                "the model in DistributedDataParallel, and multiply the loss by batch.loss_scale; or call strata.fit()",
                stacklevel=_arguments.caller(),
            )


def _can_sum() -> bool:
    distributed: Any = sys.modules.get("torch.distributed")
    is_initialized = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return is_initialized or any(name in sys.modules for name in _OTHERS)
