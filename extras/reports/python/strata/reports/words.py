# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them, in the units that strata-train prints."""

from __future__ import annotations

import math
from collections.abc import Sequence


def count(value: float | None) -> str:
    return "–" if value is None else f"{round(value):,}"


def significant(value: float) -> str:
    """Three digits, or all before the point: 0.0123, 4.56, 1,235."""
    return f"{value:.3g}" if abs(value) < 99.95 else f"{value:,.0f}"


def short_count(value: float) -> str:
    """987, 49k, 1.39M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{significant(value / size)}{unit}"
    return significant(value)


def size(value: float | None) -> str:
    """Bytes, in binary units."""
    if value is None:
        return "–"
    unit, name = unit_of(abs(float(value)))
    return f"{value / unit:.0f} {name}" if name == "B" else f"{value / unit:.1f} {name}"


def unit_of(most: float) -> tuple[float, str]:
    """The binary unit in which this many bytes are a number from 1 to 1024: its bytes, and its name."""
    names = ["B", "KiB", "MiB", "GiB", "TiB"]
    power = next((p for p in range(len(names)) if most < 1024.0 ** (p + 1)), len(names) - 1)
    return 1024.0**power, names[power]


def unit_of_time(most: float) -> tuple[float, str]:
    """The unit in which an axis up to this many seconds has few digits: its seconds, and its name."""
    minute, hour = 60.0, 3600.0
    if most < 5 * minute:
        return 1.0, "seconds"
    return (minute, "minutes") if most < 5 * hour else (hour, "hours")


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value == 0:
        return "0 s"
    if value < 1e-3:
        return f"{value * 1e6:.0f} µs"
    if value < 0.9995:
        return f"{significant(value * 1e3)} ms"
    if value < 100:
        return f"{significant(value)} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def percent(part: float, whole: float) -> str:
    if whole <= 0:
        return "–"
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 10 or share == 0 else f"{share:.1f} %"


def number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def rate(bytes_per_second: float | None) -> str:
    return "–" if bytes_per_second is None else f"{significant(bytes_per_second / 1e9)} GB/s"


def printable(text: str, encoding: str | None) -> str:
    """The text with what an output of this encoding can show."""
    known = encoding or "utf-8"
    try:
        text.encode(known)
        return text
    except UnicodeEncodeError:
        plain = text.translate({ord("→"): "->", ord("–"): "-", ord("µ"): "u", ord("…"): "..."})
        return plain.encode(known, "backslashreplace").decode(known)


def metric(name: str) -> str:
    """An option's value, as people write it."""
    return {"macro_f1": "macro F1", "roc_auc": "ROC AUC"}.get(name, name.replace("_", " "))


def plural(value: int, what: str) -> str:
    return f"{value:,} {what}{'' if value == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
