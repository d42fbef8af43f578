# SPDX-License-Identifier: Apache-2.0
"""Several runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import cells, record, words
from .charts import Axes, Series, lines
from .learning import numbers_of
from .memory import peaks
from .page import Cell, Chart, Headline, Section, Table
from .run import Record, Run

MOST_OPTIONS = 6  # that the overview has columns for
# Options that say where a run writes and how it talks, not what it computes.
NOT_COMPARED = {
    *("output", "overwrite", "resume", "progress", "log-level", "trace", "log-every", "checkpoint-every", "watchdog"),
}


def names_of(runs: Sequence[Run]) -> list[str]:
    """A name per run, with as many folders as distinguish the runs."""
    for depth in range(1, 5):
        names = ["/".join(run.folder.parts[-depth:]) for run in runs]
        if len(set(names)) == len(names):
            return names
    return [f"{run.name} ({i + 1})" for i, run in enumerate(runs)]


def differing(runs: Sequence[Run]) -> list[str]:
    """Options that are not the same in all runs that recorded them."""
    names = sorted({name for run in runs for name in run.options} - NOT_COMPARED)
    return [name for name in names if len({record.shown(run.options[name]) for run in runs if name in run.options}) > 1]


def _names(options: list[str]) -> str:
    shown = [f"--{o}" for o in options[:MOST_OPTIONS]]
    rest = len(options) - len(shown)
    return words.listed([*shown, f"{rest} others, see Options"] if rest else shown)


def headline(runs: Sequence[Run], names: list[str]) -> Headline:
    scored = [(run.score(run.best, "valid"), name, run) for run, name in zip(runs, names)]
    best = max((s for s in scored if s[0] is not None), key=lambda s: s[0] or 0.0, default=None)
    fast = max(zip(runs, names), key=lambda pair: pair[0].seeds_per_second)
    graphs = {str(run.start.get("graph")) for run in runs}
    metrics = {run.metric for run in runs}
    facts = [
        ("Runs", f"{len(runs)}: " + words.listed([f"{n} {s}" for s in record.STATES if (n := sum(r.state == s for r in runs))])),
        ("Graph", graphs.pop() if len(graphs) == 1 else f"{len(graphs)} different ones"),
        ("Best validation score", f"{words.number(best[0])}: {best[1]}" if best and len(metrics) == 1 else "–"),
        ("Its test score", words.number(best[2].score(best[2].best, "test")) if best and len(metrics) == 1 else "–"),
        ("Fastest", f"{fast[1]}: {words.count(fast[0].seeds_per_second)} seeds/s"),
    ]
    return Headline(f"{len(runs)} runs", ", ".join(names), facts)


def overview(runs: Sequence[Run], names: list[str]) -> Section:
    options = differing(runs)[:MOST_OPTIONS]
    rows = []
    for run, name in zip(runs, names):
        valid, test = run.score(run.best, "valid"), run.score(run.best, "test")
        time = max(run.elapsed.values(), default=None)
        peak = max(peaks(run, "peak_host_bytes"), default=None)
        rows.append(
            [
                Cell(name),
                Cell(run.state),
                Cell(words.number(valid), "" if valid is None else valid),
                Cell(words.number(test), "" if test is None else test),
                Cell(words.count(run.seeds_per_second) if run.epochs else "–", run.seeds_per_second if run.epochs else ""),
                *(Cell(record.shown(run.options.get(o, "")) or "–", _sorts(run.options.get(o)), mark=True) for o in options),
                Cell(words.count(run.best.get("epoch")), run.best.get("epoch", "")),
                Cell(words.count(len(run.epochs)), len(run.epochs)),
                Cell(words.seconds(time), "" if time is None else time),
                cells.size(peak),
                Cell(record.where(run)),
            ]
        )
    results = ["run", "state", "validation", "test", "seeds/s"]
    header = [*results, *(f"--{o}" for o in options), "best epoch", "epochs", "training time", "host memory of a rank", "where"]
    seen = f"The runs differ in {_names(differing(runs))}." if options else "All options that count are the same."
    return Section("Overview", seen, tables=[Table("All runs; press a title to sort", header, rows, is_open=True)])


def _sorts(value: object) -> float | str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return record.shown(value) if value is not None else ""
    return float(value)


def option_table(runs: Sequence[Run], names: list[str]) -> Section:
    options = differing(runs)
    every = sorted({name for run in runs for name in run.options} - NOT_COMPARED, key=lambda n: (n not in options, n))
    if not every:
        return Section("Options", missing="These runs are older than the record of options.")
    rows = [[Cell(f"--{name}"), *(Cell(record.shown(run.options.get(name, "")) or "–", mark=name in options) for run in runs)] for name in every]
    first = {0: "none differs", 1: "1 differs; it comes first"}.get(len(options), f"{len(options)} differ; they come first")
    seen = f"Of {words.plural(len(every), 'option')}, {first}."
    return Section("Options", seen, tables=[Table("Options of all runs", ["option", *names], rows)])


Curve = Callable[[Run], tuple[list[Record], list[float | None]]]


def _losses(run: Run) -> tuple[list[Record], list[float | None]]:
    return run.epochs, numbers_of(run.epochs, "loss")


def _scores(run: Run) -> tuple[list[Record], list[float | None]]:
    return run.evaluations, [run.score(e, "valid") for e in run.evaluations]


def _over_epochs(run: Run, name: str, curve: Curve) -> Series:
    records, values = curve(run)
    return Series(name, [r["epoch"] for r in records], values)


def _over_time(run: Run, name: str, curve: Curve) -> Series:
    points = [(run.elapsed[r["epoch"]], v) for r, v in zip(*curve(run)) if r["epoch"] in run.elapsed]
    return Series(name, [x for x, _ in points], [y for _, y in points])


def curves(runs: Sequence[Run], names: list[str], title: str, value: str, curve: Curve) -> Section:
    ends = [(v[-1], name) for run, name in zip(runs, names) if (v := [x for x in curve(run)[1] if x is not None])]
    if not ends:
        return Section(title, missing="No run has values so far.")
    (low, low_name), (high, high_name) = min(ends), max(ends)
    seen = f"The last values lie between {words.number(low)} ({low_name}) and {words.number(high)} ({high_name})."
    if words.number(low) == words.number(high):
        seen = f"The last value of {'the only run that has one' if len(ends) == 1 else 'every run'} is {words.number(low)}."
    epochs = [_over_epochs(run, name, curve) for run, name in zip(runs, names)]
    times = [_over_time(run, name, curve) for run, name in zip(runs, names)]
    charts = [
        Chart(lines(epochs, Axes("epoch", value, whole_x=True)), f"{title} over epochs, a line per run. {seen}"),
        Chart(lines(times, Axes("seconds of training", value)), f"{title} over seconds of training, a line per run. {seen}"),
    ]
    return Section(title, seen, charts=charts, tables=[_points(runs, names, value, curve), _timed_points(times, value)])


def _points(runs: Sequence[Run], names: list[str], value: str, curve: Curve) -> Table:
    by_run = [{r["epoch"]: v for r, v in zip(*curve(run))} for run in runs]
    epochs = sorted({epoch for values in by_run for epoch in values})
    rows = [
        [Cell(words.count(epoch), epoch)] + [Cell(words.number(values.get(epoch)), values.get(epoch) if values.get(epoch) is not None else "") for values in by_run]
        for epoch in epochs
    ]
    return Table(f"{_capitalized(value)} of every epoch", ["epoch", *names], rows)


def _timed_points(times: list[Series], value: str) -> Table:
    rows = [[Cell(s.name), Cell(words.seconds(x), x), Cell(words.number(y), "" if y is None else y)] for s in times for x, y in zip(s.x, s.y)]
    return Table(f"{_capitalized(value)} over seconds of training", ["run", "training time", value], rows)


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def speed(runs: Sequence[Run], names: list[str]) -> Section:
    title = "Where the time went"
    rows = []
    for run, name in zip(runs, names):
        whole = sum(float(e.get("seconds") or 0) for e in run.epochs)
        parts = [sum(float(e.get(f"{p}_seconds") or 0) for e in run.epochs) for p in ("compute", "wait", "sum")]
        shares = [Cell(words.percent(p, whole), p / whole if whole else 0.0) for p in parts]
        rows.append([Cell(name), *shares, Cell(words.count(run.seeds_per_second), run.seeds_per_second)])
    fast = max(runs, key=lambda run: run.seeds_per_second)
    slow = min(runs, key=lambda run: run.seeds_per_second)
    if slow.seeds_per_second <= 0:
        return Section(title, missing="Not every run has finished an epoch.")
    times = fast.seeds_per_second / slow.seeds_per_second
    seen = f"{names[runs.index(fast)]} trains {times:.2f} times as many seeds per second as {names[runs.index(slow)]}."
    if f"{times:.2f}" == "1.00":
        seen = f"All runs train {words.count(fast.seeds_per_second)} seeds per second, give or take 1 %."
    return Section(title, seen, tables=[Table("Shares of training time", ["run", "compute", "wait for batches", "sum over ranks", "seeds/s"], rows, is_open=True)])


def sections(runs: Sequence[Run], names: list[str]) -> list[Section]:
    metrics = {run.metric for run in runs}
    metric = words.metric(metrics.pop()) if len(metrics) == 1 else "the run's metric"
    return [
        overview(runs, names),
        curves(runs, names, "Scores", f"validation {metric}", _scores),
        curves(runs, names, "Loss", "training loss", _losses),
        speed(runs, names),
        option_table(runs, names),
    ]
