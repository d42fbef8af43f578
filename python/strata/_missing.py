# SPDX-License-Identifier: Apache-2.0
"""Names that other libraries have and Strata has not, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def attributes_of(module: str, instead: Mapping[str, str]) -> Callable[[str], Any]:
    """The __getattr__ of a module: an AttributeError that says what to do without a name of `instead`."""

    def missing(name: str) -> Any:
        what = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(f"{what}: {instead[name]}" if name in instead else what, name=name)

    return missing
