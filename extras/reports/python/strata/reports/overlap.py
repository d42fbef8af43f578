# SPDX-License-Identifier: Apache-2.0
"""The section about stages as they overlap, drawn from the file of --trace."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from . import cells, charts, words
from .page import Cell, Chart, Section, Table
from .run import Run

STEPS = 6  # that are drawn
MOST_LANES = 24
WORTH_NAMING = 0.05  # of the time that ranks train
MESSAGES_MATTER = 0.5  # of a stage

# Work within a stage, drawn below it.
WITHIN = {"sample": "neighbor exchange", "gather": "row exchange", "train": "gradient sum"}
BRINGING = {"sample": ("sampling", "neighbor lists"), "gather": ("gathering", "rows")}


@dataclasses.dataclass(frozen=True)
class Span:
    rank: int
    stage: str
    detail: str  # "hop 1"; may be empty
    start: float  # in milliseconds
    length: float
    step: int | None

    @property
    def lane(self) -> str:
        return f"rank {self.rank}: {self.stage}"

    @property
    def end(self) -> float:
        return self.start + self.length


def _window(trained: list[float], evaluated: list[float]) -> tuple[float, float]:
    """The begin and end of the drawn time: steps from the middle of the run on, without an evaluation between them if that can be."""
    middle = len(trained) // 2
    windows = list(zip(trained[middle:], trained[middle + STEPS :]))
    for begin, end in windows:
        if not any(begin < e < end for e in evaluated):
            return begin, end
    return windows[0] if windows else (trained[max(0, len(trained) - 1 - STEPS)], trained[-1] + 1)


def read_spans(run: Run) -> list[Span]:
    """Some steps in the middle of the run, of all ranks; empty without a trace."""
    if run.trace is None:
        return []
    try:
        events: list[Any] = json.loads(run.trace.read_text())["traceEvents"]
        spans = [e for e in events if e["ph"] == "X"]
        trained = sorted(e["ts"] for e in spans if e["name"] == "train" and e["pid"] == 0)
        if not trained:
            return []
        first, end = _window(trained, [e["ts"] for e in spans if e["name"] == "evaluate" and e["pid"] == 0])
        shown = [e for e in spans if e["ts"] < end and e["ts"] + e["dur"] > first]
        shown.sort(key=lambda e: (e["pid"], e["tid"], e["ts"]))
        return [_span(e, first) for e in shown]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _span(event: dict[str, Any], first: float) -> Span:
    stage, _, detail = event["name"].partition(", ")
    return Span(int(event["pid"]), stage, detail, (event["ts"] - first) / 1e3, event["dur"] / 1e3, event.get("args", {}).get("step"))


@dataclasses.dataclass(frozen=True)
class LastRank:
    """The rank that the others waited for most in their sums of gradients."""

    rank: int
    sums: int  # in which it was the last
    of_sums: int
    waited: float  # by the others, for this rank, in milliseconds


def last_rank(spans: Sequence[Span]) -> LastRank | None:
    """None unless most of the waiting is for one rank, and it is worth naming.

    All ranks leave a sum at the same time, so the one whose sum is the shortest came last. Lengths are compared, because the clocks
    of machines differ.
    """
    lengths: dict[int, dict[int, float]] = collections.defaultdict(dict)
    for span in spans:
        if span.stage == "gradient sum" and span.step is not None:
            lengths[span.step][span.rank] = span.length
    ranks = {span.rank for span in spans}
    sums = [of_ranks for of_ranks in lengths.values() if of_ranks.keys() == ranks]
    if len(ranks) < 2 or not sums:
        return None
    waited: dict[int, float] = collections.defaultdict(float)
    last: collections.Counter[int] = collections.Counter()
    for of_ranks in sums:
        rank = min(of_ranks, key=lambda r: of_ranks[r])
        last[rank] += 1
        waited[rank] += sum(of_ranks.values()) - len(of_ranks) * of_ranks[rank]
    rank = max(waited, key=lambda r: waited[r])
    trained = _total(spans, "train")
    if waited[rank] < max(sum(waited.values()) / 2, WORTH_NAMING * trained):
        return None
    return LastRank(rank, last[rank], len(sums), waited[rank])


def _total(spans: Sequence[Span], stage: str) -> float:
    return sum(span.length for span in spans if span.stage == stage)


def _shared(waits: Sequence[Span], stages: Sequence[Span]) -> float:
    """The time that the second was under way during the first."""
    return sum(max(0.0, min(w.end, s.end) - max(w.start, s.start)) for w in waits for s in stages)


def _waits_for_batches(spans: Sequence[Span]) -> str:
    """The rank that waits longest for batches, and what is done meanwhile; empty if it is not worth naming."""
    waited = {rank: _total([s for s in spans if s.rank == rank], "wait") for rank in {s.rank for s in spans}}
    rank = max(waited, key=lambda r: waited[r])
    mine = [s for s in spans if s.rank == rank]
    if waited[rank] <= WORTH_NAMING * (waited[rank] + _total(mine, "train")):
        return ""
    waits = [s for s in mine if s.stage == "wait"]
    shared = {stage: _shared(waits, [s for s in mine if s.stage == stage]) for stage in ("sample", "gather", *WITHIN.values())}
    stage = "gather" if shared["gather"] >= shared["sample"] else "sample"
    doing, of_others = BRINGING[stage]
    whose = f"rank {rank}" if len(waited) > 1 else "training"
    seen = f"For batches, {whose} waits {words.seconds(waited[rank] / 1e3)}, mostly while it is {doing}"
    if shared[WITHIN[stage]] > MESSAGES_MATTER * shared[stage]:
        seen += f" and waits for {of_others} of other machines"
    return seen + ". "


def _waits_for_ranks(last: LastRank | None, ranks: int) -> str:
    if last is None:
        return ""
    others = "the other waits" if ranks == 2 else "the others wait"
    return (
        f"Training waits for the gradients of rank {last.rank}: it comes last in {last.sums} of {words.plural(last.of_sums, 'sum')}, "
        f"and {others} {words.seconds(last.waited / 1e3)} for it{'' if ranks == 2 else ' in all'}. "
    )


def _longest(spans: Sequence[Span]) -> str:
    """The stage with the most work."""
    return max(WITHIN, key=lambda stage: _total(spans, stage))


def _work(spans: Sequence[Span], longest: str) -> str:
    whole, within = _total(spans, longest), _total(spans, WITHIN[longest])
    share = f"{words.seconds(whole / 1e3)} of what is shown"
    if within > 0 and len({span.rank for span in spans}) > 1:
        share += f", {words.percent(min(within, whole), whole)} of it “{WITHIN[longest]}”"
    return f"The stage with the most work is “{longest}” ({share}). "


def _advice(run: Run, spans: Sequence[Span], longest: str, last: LastRank | None) -> str:
    """Advice that makes the longest stage shorter."""
    whole = _total(spans, longest)
    if longest == "train":
        waits = last is not None and last.waited > MESSAGES_MATTER * _total(spans, "gradient sum")
        return f"Look at what is different on rank {last.rank}: see the table of ranks." if last is not None and waits else ""
    if _total(spans, WITHIN[longest]) > MESSAGES_MATTER * whole:
        return "Messages between machines limit the run: a larger --halo-cache, or parts with fewer edges between them (strata-partition build --quality strong)."
    if longest == "sample":
        beside = "more cores per rank, or --sampler-device auto" if run.is_on_gpus else "or more cores per rank"
        return f"Sampling limits the run: smaller --fanouts, {beside}."
    return f"Gathering limits the run: more {'--gpu-memory or ' if run.is_on_gpus else ''}cores per rank, or strata-partition build --clusters."


def _drawn(spans: Sequence[Span], last: LastRank | None) -> list[Span]:
    """The lanes of as many ranks as fit, among them the one that others wait for. Lanes that are bare by their nature are left out."""
    ranks = sorted({span.rank for span in spans}, key=lambda rank: (last is None or rank != last.rank, rank))
    alone = len(ranks) == 1
    lanes = {rank: {s.stage for s in spans if s.rank == rank and not (alone and s.stage == "gradient sum")} for rank in ranks}
    chosen: list[int] = []
    for rank in ranks:
        if chosen and sum(len(lanes[r]) for r in (*chosen, rank)) > MOST_LANES:
            break
        chosen.append(rank)
    return [span for span in spans if span.rank in chosen and span.stage in lanes[span.rank]]


def _hidden_messages(run: Run, spans: Sequence[Span]) -> str:
    """A note about what is not drawn: messages from GPU to GPU, which are recorded with the batch that they are for."""
    shown = {span.stage for span in spans}
    if not run.is_on_gpus or int(run.start.get("machines", 1)) == 1 or shown >= {WITHIN["sample"], WITHIN["gather"]}:
        return ""
    return "Messages that go from GPU to GPU have no lane of their own: they count in “sample” and “gather”. "


def overlap(run: Run) -> Section:
    title = "Stages as they overlap"
    spans = read_spans(run)
    if not spans:
        missing = "The run wrote no trace. strata-train --trace FILE records what each stage of each rank did when."
        if run.options.get("trace"):
            missing = f"The trace {run.options['trace']} is written at the end of a run; it is not there, or has no step."
        return Section(title, missing=missing)
    last, longest = last_rank(spans), _longest(spans)
    ranks, drawn = len({span.rank for span in spans}), _drawn(spans, last)
    seen = f"About {STEPS} steps in the middle of the run. {_work(spans, longest)}{_waits_for_ranks(last, ranks)}{_waits_for_batches(spans)}{_hidden_messages(run, spans)}"
    seen += "Lanes that are full from end to end limit the run; gaps in “train” are waits for the lanes above it."
    if (shown := len({span.rank for span in drawn})) < ranks:
        seen += f" {shown} of {ranks} ranks are drawn."
    rows = [
        [Cell(s.lane), Cell(s.detail or "–"), Cell(words.seconds(max(s.start, 0) / 1e3), s.start), cells.seconds(s.length / 1e3)] for s in drawn
    ]
    lanes = list(dict.fromkeys(span.lane for span in drawn))
    figure = charts.timeline([charts.Span(s.lane, s.stage, s.start, s.length, s.detail) for s in drawn], lanes)
    return Section(
        title,
        seen,
        _advice(run, spans, longest, last),
        charts=[Chart(figure, f"What each stage of each rank did when. {seen}")],
        tables=[Table("The spans that are drawn", ["lane", "of", "begins after", "takes"], rows)],
    )
