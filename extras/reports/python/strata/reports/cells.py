# SPDX-License-Identifier: Apache-2.0
"""Cells of tables: values as people read them, and sorted by what they are."""

from __future__ import annotations

from . import words
from .page import Cell


def count(value: float) -> Cell:
    return Cell(words.count(value), value)


def seconds(value: float | None) -> Cell:
    return Cell(words.seconds(value), _key(value))


def size(value: float | None) -> Cell:
    return Cell(words.size(value), _key(value))


def rate(bytes_per_second: float | None) -> Cell:
    return Cell(words.rate(bytes_per_second), _key(bytes_per_second))


def _key(value: float | None) -> float | str:
    return "" if value is None else float(value)
