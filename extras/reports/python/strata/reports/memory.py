# SPDX-License-Identifier: Apache-2.0
"""The section about what ranks held over time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from . import cells, words
from .charts import Axes, Series, lines
from .page import Cell, Chart, Section, Table
from .run import Record, Run

GROWS = 1.1  # times what was held after the second epoch
MOST_RANKS = 6  # that are drawn one by one
MOST_POINTS = 400  # of a line
HOST, DEVICE = "host_bytes", "device_bytes"
PLACES = {HOST: "host memory", DEVICE: "GPU memory"}


@dataclasses.dataclass(frozen=True)
class Sample:
    seconds: float  # of the run, without the time between a stop and --resume
    bytes: dict[str, float]  # by HOST and DEVICE


def samples(run: Run) -> dict[int, list[Sample]]:
    """Samples of each rank's memory in order of time; empty for a run that recorded only peaks."""
    of_ranks: dict[int, list[Sample]] = {}
    start, before, latest = None, 0.0, 0.0
    for record in run.records:
        if record["type"] == "run":
            start, before = record.get("time"), latest
        for rank in record.get("ranks", []) if record["type"] == "ranks" else []:
            held: Record = rank.get("memory") or {}
            for time, host, device in zip(held.get("time", []), held.get(HOST, []), held.get(DEVICE, [])):
                start = time if start is None else start
                seconds = before + max(0.0, time - start)
                latest = max(latest, seconds)
                of_ranks.setdefault(int(rank["rank"]), []).append(Sample(seconds, {HOST: host, DEVICE: device}))
    return of_ranks


def _thinned(held: Sequence[Sample], place: str) -> list[Sample]:
    """Samples that a chart can show: the largest of each stretch of time."""
    stretch = math.ceil(len(held) / MOST_POINTS)
    return [max(held[i : i + stretch], key=lambda sample: sample.bytes[place]) for i in range(0, len(held), stretch)]


def _most(held: Sequence[Sample], place: str) -> float:
    return max(sample.bytes[place] for sample in held)


def _series(of_ranks: dict[int, list[Sample]], place: str) -> dict[str, list[Sample]]:
    """A line for each rank; where there are many, for those that held the most and the least."""
    named = {rank: f"rank {rank}" for rank in sorted(of_ranks)}
    if len(of_ranks) > MOST_RANKS:
        by_most = sorted(of_ranks, key=lambda rank: _most(of_ranks[rank], place))
        named = {by_most[-1]: f"rank {by_most[-1]}, the most", by_most[0]: f"rank {by_most[0]}, the least"}
    return {name: _thinned(of_ranks[rank], place) for rank, name in named.items()}


def _over_time(of_ranks: dict[int, list[Sample]], place: str, seen: str) -> tuple[Chart, Table]:
    series = _series(of_ranks, place)
    time, time_name = words.unit_of_time(max(sample.seconds for held in series.values() for sample in held))
    unit, name = words.unit_of(max(_most(held, place) for held in series.values()))
    drawn = [Series(rank, [s.seconds / time for s in held], [s.bytes[place] / unit for s in held]) for rank, held in series.items()]
    chart = Chart(lines(drawn, Axes(f"{time_name} since the start", f"{name} of {PLACES[place]}", from_zero=True)), f"What ranks held of {PLACES[place]} over time. {seen}")
    rows = [[Cell(rank), cells.seconds(s.seconds), cells.size(s.bytes[place])] for rank, held in series.items() for s in held]
    return chart, Table(f"Over time: {PLACES[place]}", ["rank", "after", "held"], rows)


def peaks(run: Run, name: str) -> list[float]:
    """The peaks of all ranks and epochs that recorded them."""
    values = [record.get(name) for record in [*run.epochs, run.final]]
    values += [rank.get(name) for record in run.of("ranks") for rank in record.get("ranks", [])]
    return [float(v) for v in values if v is not None]


def _at_ends(run: Run) -> dict[int, list[float]]:
    """Host memory of each rank at the end of each epoch."""
    ends: dict[int, list[float]] = {}
    for record in run.of("ranks"):
        for rank in record.get("ranks", []):
            if held := (rank.get("memory") or {}).get(HOST):
                ends.setdefault(int(rank["rank"]), []).append(held[-1])
    return ends


def _growth(run: Run) -> tuple[str, str]:
    """The observation about host memory that goes on growing, and the remedy; empty if none does."""
    ends = {rank: held for rank, held in _at_ends(run).items() if len(held) >= 4 and held[1] > 0}
    if not ends:
        return "", ""
    rank = max(ends, key=lambda r: ends[r][-1] / ends[r][1])
    second, last = ends[rank][1], ends[rank][-1]
    if last <= GROWS * second:
        return "", ""
    whose = f"That of rank {rank}" if len(ends) > 1 else "It"
    seen = f" {whose} grew from {words.size(second)} after the second epoch to {words.size(last)}."
    return seen, "If it goes on growing, a run of many epochs may end without memory: --resume continues it."


def _most_held(run: Run, of_ranks: dict[int, list[Sample]]) -> str:
    seen = f"The most that a rank has held: {words.size(max(peaks(run, 'peak_host_bytes')))} of host memory"
    torch = max(peaks(run, "peak_device_bytes"), default=0)
    seen += f" and {words.size(torch)} of libtorch's on its GPU." if torch else "."
    if of_ranks and (device := max(_most(held, DEVICE) for held in of_ranks.values())):
        seen += f" Of one GPU, at most {words.size(device)} were in use, the graph's rows included."
    return seen


def _peak_charts(run: Run, seen: str) -> list[Chart]:
    """Charts of a run that recorded no samples; none where it was stopped within its first epoch."""
    peaks = [e.get("peak_host_bytes") for e in run.epochs]
    most = max((v for v in peaks if v is not None), default=None)
    if most is None:
        return []
    unit, name = words.unit_of(most)
    drawn = Series("host memory, first rank", [e["epoch"] for e in run.epochs], [None if v is None else v / unit for v in peaks])
    return [Chart(lines([drawn], Axes("epoch", f"{name}, peak so far", whole_x=True, from_zero=True)), f"Memory over epochs. {seen}")]


def _peak_table(run: Run) -> Table:
    """A table of the rank that held the most, after each epoch."""
    columns = {"peak_host_bytes": "host memory", **({"peak_device_bytes": "libtorch's GPU memory"} if run.is_on_gpus else {})}
    by_epoch = {record["epoch"]: record.get("ranks", []) for record in run.of("ranks")}

    def most(epoch: Record, name: str) -> float | None:
        return max((v for r in (epoch, *by_epoch.get(epoch["epoch"], [])) if (v := r.get(name)) is not None), default=None)

    rows = [[cells.count(epoch["epoch"]), *(cells.size(most(epoch, name)) for name in columns)] for epoch in run.epochs]
    return Table("Peaks after each epoch, the largest of all ranks", ["epoch", *columns.values()], rows)


def memory(run: Run) -> Section:
    title = "Memory"
    if not peaks(run, "peak_host_bytes"):
        return Section(title, missing="No epoch has ended yet.")
    of_ranks = samples(run)
    growth, advice = _growth(run)
    seen = _most_held(run, of_ranks) + growth
    if not of_ranks:
        return Section(title, seen, charts=_peak_charts(run, seen), tables=[_peak_table(run)])
    drawn = [_over_time(of_ranks, place, seen) for place in PLACES if any(_most(held, place) for held in of_ranks.values())]
    return Section(title, seen, advice, charts=[chart for chart, _ in drawn], tables=[*(table for _, table in drawn), _peak_table(run)])
