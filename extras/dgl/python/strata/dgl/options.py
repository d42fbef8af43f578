# SPDX-License-Identifier: Apache-2.0
"""Options of DGL's loaders that Strata's do without."""

from __future__ import annotations

import warnings
from typing import Any

# Options of DGL's loaders that have no effect here, and their values that are accepted silently.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "num_workers": (0,),
    "use_prefetch_thread": (None, False),
    "use_alternate_streams": (None, False),
    "pin_prefetcher": (None, False),
    "pin_memory": (False,),
    "persistent_workers": (False,),
    "prefetch_factor": (None,),
    "worker_init_fn": (None,),
    "use_uva": (False,),
    "gpu_cache": (None, {}),
}


def say_what_has_no_effect(others: dict[str, Any]) -> None:
    """Warns of what was given, and refuses what DGL does not have either."""
    for name, value in others.items():
        if name not in _WITHOUT_EFFECT:
            raise TypeError(f"DataLoader() got an unexpected keyword argument {name!r}")
        if value not in _WITHOUT_EFFECT[name]:
            warnings.warn(f"{name} has no effect: batches are made by threads of C++, on the device", stacklevel=3)
