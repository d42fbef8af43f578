# SPDX-License-Identifier: Apache-2.0
"""Arguments of Python's callers, refused in their words."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from strata.errors import InputError


def integer(value: Any, name: str, least: int, most: int = (1 << 63) - 1) -> int:
    """An int, or another library's integer."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; give an integer") from None
    if not least <= number <= most:
        raise InputError(f"{name} is {number}", f"Give an integer from {least} to {most}.")
    return number


def flag(value: Any, name: str) -> bool:
    """True or False, or NumPy's."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "numpy.bool"):
        return bool(value)
    raise TypeError(f"{name} is {value!r}; give True or False")


def word(value: Any, name: str) -> str:
    """A str."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; give a word")
    return value


def fanouts(values: Any, name: str, zero: bool = False) -> list[int]:
    """Numbers of neighbors, the seeds' first; -1: all; 0, where it is possible: none."""
    if isinstance(values, Mapping):
        raise TypeError(f"{name} is a dict of types of edges, and this graph has one type: give one number per hop, [15, 10, 5]")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}; give one number of neighbors per hop: [15, 10, 5]")
    numbers = [integer(value, f"{name}[{hop}]", -(1 << 31), (1 << 31) - 1) for hop, value in enumerate(values)]
    if not numbers:
        raise InputError(f"no fanouts were given (in {name})", "Give one number of neighbors per hop: [15, 10, 5].")
    for number in numbers:
        if number < -1 or (number == 0 and not zero):
            what = "0 takes no neighbors" if number == 0 else f"{number} is below -1"
            raise InputError(f"fanout {what} (in {name})", "Give a number of neighbors, at least 1, or -1 for all of them.")
    return numbers


def epoch(value: Any) -> int:
    return integer(value, "epoch", 0, (1 << 32) - 1)


def caller() -> int:
    """The stacklevel with which a warning names the line that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("strata", "contextlib"):
        level, frame = level + 1, frame.f_back
    return level


def place(value: Any, name: str, then: str) -> str:
    """The name of a graph in files; TypeError for a graph in memory, with the calls that make files of it."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    raise TypeError(
        f"{name} is a {type(value).__name__}; give the name of a graph in files. A graph in memory becomes one by "
        f'strata.save(graph, "FOLDER"){then}; loaders take it as it is, by strata.from_pyg(data) and its like'
    )
