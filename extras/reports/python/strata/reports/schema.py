# SPDX-License-Identifier: Apache-2.0
"""The fields of the records of metrics.jsonl. A field may be missing unless noted; unknown fields are let through."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def _fields(needed: Mapping[str, Check], others: Mapping[str, Check] | None = None, rest: Check | None = None) -> Check:
    """An object with the needed fields; its other fields are checked where they are there, and all unnamed ones with `rest`."""
    named = {**needed, **(others or {})}

    def check(value: Any) -> bool:
        if not isinstance(value, dict) or not all(name in value for name in needed):
            return False
        return all(named[name](item) if name in named else rest is None or rest(item) for name, item in value.items())

    return check


def _numbers(*names: str) -> dict[str, Check]:
    return dict.fromkeys(names, _or_null(is_number))


_NUMBERS = _fields({}, rest=_or_null(is_number))
_SPLIT = _or_null(_fields({}, _numbers("nodes", "loss", "accuracy", "macro_f1", "roc_auc")))
_SECONDS = _numbers("seconds", "sample_seconds", "gather_seconds", "wait_seconds", "compute_seconds", "sum_seconds")
_PEAKS = _numbers("peak_host_bytes", "peak_device_bytes")
_TIME: dict[str, Check] = {"time": is_number}
_EPOCH: dict[str, Check] = {"epoch": is_count}


def _needed(*names: str) -> dict[str, Check]:
    return dict.fromkeys(names, is_number)


def _asked(hop: Mapping[str, Check], features: Mapping[str, Check]) -> dict[str, Check]:
    """The requests of ranks to each other, per hop and for rows."""
    return {"neighbors": _fields({"hops": _list_of(_fields(hop))}), "features": _fields(features)}


_TOTALS = _asked(_needed("nodes", "remote", "cached", "bytes"), _needed("rows", "remote", "cached", "bytes"))
_TRAFFIC = _asked(
    _needed("nodes", "remote", "cached", "request_bytes", "answer_bytes"), _needed("rows", "remote", "cached", "request_bytes", "row_bytes")
)
_PLACED = _fields({"tensor": is_text, "stratum": is_text, **_needed("rows", "bytes")}, _numbers("share", "bytes_per_second"))
_COUNTS = _list_of(is_count)
_HELD = _or_null(_fields({}, dict.fromkeys(("time", "host_bytes", "device_bytes"), _list_of(is_number))))

RECORDS: dict[str, Check] = {
    "run": _fields(
        {},
        {
            **_TIME,
            **_numbers("nodes", "edges", "steps_per_epoch", "global_batch_size", "seed", "presampled_batches"),
            **dict.fromkeys(("ranks", "machines"), is_count),
            **{"options": is_object, "hosts": _or_null(_list_of(is_text)), "libraries": _or_null(_list_of(is_text))},
            **{"fanouts": _or_null(_list_of(is_number)), "plan": _or_null(_list_of(_PLACED)), "started": is_text},
            "hottest_rows": _or_null(_list_of(_fields(_needed("share", "rows")))),
        },
    ),
    "epoch": _fields(
        _EPOCH,
        {**_TIME, **_SECONDS, **_PEAKS, **_numbers("loss", "train_accuracy", "seeds", "seeds_per_second"), "gathered_bytes": _or_null(_NUMBERS)},
    ),
    "evaluation": _fields(_EPOCH, {**_TIME, **_numbers("seconds"), "valid": _SPLIT, "test": _SPLIT}),
    "step": _fields({**_EPOCH, "step": is_count}, {**_TIME, **_numbers("loss", "train_accuracy")}),
    "ranks": _fields({**_EPOCH, "ranks": _list_of(_fields({"rank": is_count}, {**_SECONDS, **_PEAKS, "memory": _HELD}))}, _TIME),
    "traffic": _fields({**_EPOCH, "ranks": _list_of(_fields({"rank": is_count, **_TRAFFIC}, {**_SECONDS, **_PEAKS}))}, _TIME),
    "exchange": _fields(_TOTALS, _TIME),
    "classes": _fields(dict.fromkeys(("labelled", "predicted", "correct"), _COUNTS), {**_TIME, "confusion": _or_null(_list_of(_COUNTS))}),
    "final": _fields({}, {**_TIME, **_PEAKS}),
}


def is_sound(record: Any) -> bool:
    """Whether a line of metrics.jsonl is a record that the pages can be drawn from. Kinds that are not known here are."""
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return False
    if not RECORDS.get(record["type"], is_object)(record):
        return False
    return record["type"] != "classes" or _is_rectangular(record)


def _is_rectangular(record: dict[str, Any]) -> bool:
    """Whether the lists of a record of classes have one entry per class."""
    classes = len(record["labelled"])
    confusion = record.get("confusion") or [record["labelled"]] * classes
    return {len(record[name]) for name in ("predicted", "correct")} | {len(confusion)} | {len(row) for row in confusion} <= {classes}
