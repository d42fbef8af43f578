# SPDX-License-Identifier: Apache-2.0
"""Sections about how a run worked: stages, strata, the plan, exchange, ranks."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from . import cells, words
from .charts import Axes, Series, dots, horizontal, stacked
from .page import Cell, Chart, Section, Table
from .run import Record, Run

if TYPE_CHECKING:
    import plotly.graph_objects as go

MUCH = 0.15  # a share of an epoch that is worth an advice
WORTH_NAMING = 0.05  # of all reads, beside those that GPUs serve already
STRAGGLES = 1.15  # times the median of the ranks
STRATA = ("replicated", "striped", "host")


def typical(epochs: list[Record]) -> list[Record]:
    """Without the first one, which warms up, where there are others."""
    return epochs[1:] if len(epochs) > 1 else epochs


def total(records: list[Record], name: str) -> float:
    return sum(float(record.get(name) or 0) for record in records)


def mean(epochs: list[Record], name: str) -> float:
    """Per epoch."""
    return total(epochs, name) / len(epochs)


def _stages_seen(run: Run) -> tuple[str, str]:
    epochs = typical(run.epochs)
    whole = mean(epochs, "seconds")
    wait, add, compute = (mean(epochs, f"{name}_seconds") for name in ("wait", "sum", "compute"))
    seen = (
        f"Of an epoch's {words.seconds(whole)}, {words.percent(compute, whole)} went into computing, "
        f"{words.percent(wait, whole)} into waiting for batches and {words.percent(add, whole)} into summing gradients over the ranks."
    )
    sums_matter = whole > 0 and add / whole > MUCH and int(run.start.get("ranks", 1)) > 1
    if whole > 0 and wait / whole > MUCH and not (sums_matter and add > wait):
        return seen, _wait_advice(run, mean(epochs, "sample_seconds"), mean(epochs, "gather_seconds"))
    if sums_matter:
        return seen, (
            f"{_why_sums_take_long(_rank_sums(rank_epochs(run)))} A larger --batch-size or --accumulate sums less often."
        )
    return seen, ""


def _why_sums_take_long(sums: dict[int, Record]) -> str:
    """The reason why ranks wait in sums of gradients, as the section about ranks has it."""
    if slow := stragglers(sums):
        return f"Ranks wait for rank {words.listed([str(rank) for rank in slow])}: see the table of ranks."
    if not sums:
        return "Ranks wait for the slowest one or for the network."
    return "No rank is slower than the others in all: they wait for the network, or for another rank in each step."


def _wait_advice(run: Run, sample: float, gather: float) -> str:
    """Advice that makes batches come sooner, from the seconds per epoch of their stages."""
    if run.options.get("pipeline") is False:
        return "--pipeline on samples and gathers while the model computes."
    on_gpu = run.is_on_gpus
    if sample >= gather:
        remedy = "more --gpu-memory for neighbor lists, or --sampler-device auto" if on_gpu else "more cores per rank, or smaller --fanouts"
        return f"Training waits for sampling ({words.seconds(sample)} per epoch, against {words.seconds(gather)} of gathering): {remedy}."
    host = sum(int((e.get("gathered_bytes") or {}).get("host") or 0) for e in run.epochs)
    rows = sum(int(n or 0) for e in run.epochs for n in (e.get("gathered_bytes") or {}).values())
    if on_gpu and rows and host / rows > MUCH:
        return (
            f"Training waits for rows, {words.percent(host, rows)} of which come from host memory: more --gpu-memory holds more of them, "
            "--host-gather threads and --clusters read them faster."
        )
    return f"Training waits for rows ({words.seconds(gather)} of gathering per epoch): more cores per rank, or strata-partition build --clusters."


def stages(run: Run) -> Section:
    if not run.epochs:
        return Section("Stages of an epoch", missing="No epoch has ended yet.")
    seen, advice = _stages_seen(run)
    epochs = [e["epoch"] for e in run.epochs]

    def series(name: str, field: str) -> Series:
        return Series(name, epochs, [e.get(field) for e in run.epochs])

    parts = [series("compute", "compute_seconds"), series("wait for batches", "wait_seconds"), series("sum over ranks", "sum_seconds")]
    beside = [series("sampling, at the same time", "sample_seconds"), series("gathering, at the same time", "gather_seconds")]
    chart = Chart(
        stacked(parts, Axes("epoch", "seconds", whole_x=True, from_zero=True), beside),
        f"Seconds of each epoch: bars add up to the epoch, lines show the stages that overlap with it. {seen}",
    )
    header = ["epoch", "time", "compute", "wait for batches", "sum over ranks", "sample", "gather"]
    fields = ["seconds", "compute_seconds", "wait_seconds", "sum_seconds", "sample_seconds", "gather_seconds"]
    rows = [[cells.count(e["epoch"])] + [cells.seconds(e.get(field)) for field in fields] for e in run.epochs]
    return Section("Stages of an epoch", seen, advice, charts=[chart], tables=[Table("Stages of each epoch, first rank", header, rows)])


def planned_rate(run: Run, stratum: str) -> float | None:
    """The rate that the planner expects of a stratum that holds features."""
    for row in run.start.get("plan") or []:
        if row.get("tensor") == "features" and row.get("stratum") == stratum and row.get("bytes_per_second"):
            return float(row["bytes_per_second"])
    return None


def strata(run: Run) -> Section:
    title = "Rows by stratum"
    epochs = typical(run.epochs)
    sums = {s: sum(float((e.get("gathered_bytes") or {}).get(s) or 0) for e in epochs) for s in STRATA}
    whole = sum(sums.values())
    if whole == 0:
        why = "No epoch has ended yet." if not run.epochs else "No row was gathered: the model reads rows in place, or the features are read by other ranks."
        return Section(title, missing=why)
    gathering = total(epochs, "gather_seconds")
    seen = f"The first rank read {words.size(whole / len(epochs))} of feature rows per epoch: "
    seen += words.listed([f"{words.percent(n, whole)} from {_place(s)}" for s, n in sums.items() if n > 0]) + "."
    delivered = {s: n / gathering for s, n in sums.items() if gathering > 0 and n > 0}
    limits = {s: limit for s in delivered if (limit := planned_rate(run, s))}
    if delivered:
        seen += f" While it gathered, {words.listed([_delivered(s, rate, limits.get(s)) for s, rate in delivered.items()])}."
    advice = ""
    if run.is_on_gpus and sums["host"] / whole > MUCH:
        advice = "More --gpu-memory, or more GPUs per machine, moves the hottest rows out of host memory; strata-partition build --clusters has fewer rows read."
    epoch_numbers = [e["epoch"] for e in run.epochs]
    read = {s: [float((e.get("gathered_bytes") or {}).get(s) or 0) for e in run.epochs] for s in STRATA}
    unit, name = words.unit_of(max(max(values) for values in read.values()))
    parts = [Series(_place(s), epoch_numbers, [v / unit for v in values]) for s, values in read.items() if any(values)]
    charts = [Chart(stacked(parts, Axes("epoch", f"{name} read per epoch", whole_x=True, from_zero=True)), f"Feature rows by stratum. {seen}")]
    if limits:
        charts.append(Chart(_rates(delivered, limits), f"What each stratum delivered, beside its limit. {seen}"))
    rows = [
        [Cell(s), cells.size(sums[s] / len(epochs)), Cell(words.percent(sums[s], whole), sums[s] / whole), cells.rate(delivered.get(s)), cells.rate(planned_rate(run, s))]
        for s in STRATA
    ]
    header = ["stratum", "read per epoch", "share", "delivered", "limit (measured for the plan)"]
    table = Table("What each stratum delivered, first rank", header, rows, is_open=True)
    per_epoch = [[cells.count(number)] + [cells.size(read[s][i]) for s in STRATA] for i, number in enumerate(epoch_numbers)]
    return Section(title, seen, advice, charts=charts, tables=[table, Table("Read in each epoch, first rank", ["epoch", *STRATA], per_epoch)])


def _delivered(stratum: str, rate: float, limit: float | None) -> str:
    of_limit = f" ({words.percent(rate, limit)} of their limit)" if limit is not None else ""
    return f"{_place(stratum)} came at {words.rate(rate)}{of_limit}"


def _rates(delivered: dict[str, float], limits: dict[str, float]) -> go.Figure:
    giga = 1e9
    drawn = (("delivered", delivered), ("limit, measured for the plan", limits))
    series = [Series(name, [_place(s) for s in rates], [rate / giga for rate in rates.values()]) for name, rates in drawn if rates]
    return dots(series, Axes("GB/s", ""))


def _place(stratum: str) -> str:
    return {"replicated": "rows copied to every GPU", "striped": "rows striped over the GPUs", "host": "rows in host memory"}[stratum]


def _memory_advice(run: Run, features: list[Record], host: Record) -> str:
    """Advice about more GPU memory: the next share of the reads that is worth naming, and all rows."""
    share = f", which {words.percent(host['share'], 1)} of the reads need" if host.get("share") is not None else ""
    everything = f"{words.size(host['bytes'])} more GPU memory would hold the rows that are in host memory{share}."
    held = [r for r in features if r["stratum"] != "host"]
    served, rows = sum(r.get("share") or 0.0 for r in held), sum(r["rows"] for r in held)
    row_bytes = host["bytes"] / host["rows"]
    for hottest in run.start.get("hottest_rows") or []:
        if hottest["share"] > served + WORTH_NAMING and rows < hottest["rows"] < rows + host["rows"]:
            more = words.size((hottest["rows"] - rows) * row_bytes)
            return f"{more} more GPU memory on the machine would hold the hottest {words.percent(hottest['share'], 1)} of the reads; {everything}"
    return everything


def plan(run: Run) -> Section:
    title = "Where rows lie"
    rows = run.start.get("plan")
    if rows is None:
        return Section(title, missing="The plan is in train.log only: runs of Strata 0.2 record it in metrics.jsonl.")
    if not rows:
        return Section(title, missing="There is no plan: nothing was placed.")
    presampled = int(run.start.get("presampled_batches") or 0)
    why = f"from the reads of {presampled} batches" if presampled else "from the structure of the graph"
    features = [row for row in rows if row["tensor"] == "features"]
    held = " and ".join(f"{words.count(r['rows'])} ({words.size(r['bytes'])}) {r['stratum']}" for r in features if r["rows"])
    seen = f"Planned {why}. Feature rows of the first machine: {held or 'none'}."
    advice = ""
    host = next((r for r in features if r["stratum"] == "host" and r["rows"]), None)
    if host and run.is_on_gpus:
        advice = _memory_advice(run, features, host)
    names = list(dict.fromkeys(r["tensor"] for r in rows))
    unit, name = words.unit_of(max(r["bytes"] for r in rows))
    series = [
        Series(s, names, [sum(r["bytes"] for r in rows if r["tensor"] == n and r["stratum"] == s) / unit for n in names]) for s in STRATA
    ]
    chart = Chart(horizontal([s for s in series if any(s.y)], Axes(name, "")), f"Bytes of each tensor by stratum. {seen}")
    table_rows = [
        [
            Cell(r["tensor"]),
            Cell(r["stratum"]),
            Cell(words.count(r["rows"]), r["rows"]),
            cells.size(r["bytes"]),
            Cell(words.percent(r["share"], 1) if r.get("share") is not None else "–", r.get("share") or 0.0),
            Cell(words.rate(r.get("bytes_per_second")), r.get("bytes_per_second") or 0.0),
        ]
        for r in rows
    ]
    header = ["tensor", "stratum", "rows", "size", "share of reads", "rate if read only there"]
    return Section(title, seen, advice, charts=[chart] if any(any(s.y) for s in series) else [], tables=[Table("The plan, first machine", header, table_rows, is_open=True)])


def _traffic_totals(run: Run) -> Record | None:
    """What `exchange` says, or the sum of `traffic` of a run that has not ended."""
    if record := run.last("exchange"):
        return record
    ranks = [rank for record in run.of("traffic") for rank in record.get("ranks", [])]
    if not ranks:
        return None
    hops: list[Record] = []
    for rank in ranks:
        for i, hop in enumerate(rank["neighbors"]["hops"]):
            if i == len(hops):
                hops.append({"nodes": 0, "remote": 0, "cached": 0, "bytes": 0})
            for name in ("nodes", "remote", "cached"):
                hops[i][name] += hop[name]
            hops[i]["bytes"] += hop["request_bytes"] + hop["answer_bytes"]
    features: Record = {name: sum(rank["features"][name] for rank in ranks) for name in ("rows", "remote", "cached")}
    features["bytes"] = sum(rank["features"]["request_bytes"] + rank["features"]["row_bytes"] for rank in ranks)
    return {"neighbors": {"hops": hops}, "features": features}


def exchange(run: Run) -> Section:
    title = "Exchange between machines"
    if int(run.start.get("machines", 1)) == 1:
        return Section(title, missing="The run has one machine, which asks no other.")
    totals = _traffic_totals(run)
    if totals is None:
        return Section(title, missing="No epoch has ended yet.")
    asked = [(f"neighbors, hop {i + 1}", hop["nodes"], hop) for i, hop in enumerate(totals["neighbors"]["hops"])]
    asked.append(("feature rows", totals["features"]["rows"], totals["features"]))
    rows = totals["features"]
    seen = (
        f"{words.percent(rows['remote'], rows['rows'])} of the feature rows belong to other machines; the halo cache had "
        f"{words.percent(rows['cached'], rows['remote'])} of these. {words.size(sum(part['bytes'] for _, _, part in asked))} were sent in all."
    )
    advice = ""
    if rows["rows"] and (rows["remote"] - rows["cached"]) / rows["rows"] > MUCH:
        advice = "A larger --halo-cache keeps more of the hottest rows; parts with fewer edges between them (strata-partition build --quality strong) need fewer."
    names = [name for name, _, _ in asked]
    own = [n - part["remote"] for _, n, part in asked]
    cached = [part["cached"] for _, _, part in asked]
    remote = [part["remote"] - part["cached"] for _, _, part in asked]

    def shares(values: list[float]) -> list[float | None]:
        return [100 * v / n if n else 0.0 for v, (_, n, _) in zip(values, asked)]

    chart = Chart(
        horizontal([Series("own", names, shares(own)), Series("cached", names, shares(cached)), Series("asked for", names, shares(remote))], Axes("percent", "")),
        f"Shares of nodes and rows that are a machine's own, cached, or asked for. {seen}",
    )
    table_rows = [
        [
            Cell(name),
            Cell(words.count(n), n),
            Cell(words.percent(part["remote"], n), part["remote"] / n if n else 0.0),
            Cell(words.percent(part["cached"], part["remote"]), part["cached"] / part["remote"] if part["remote"] else 0.0),
            cells.size(part["bytes"]),
        ]
        for name, n, part in asked
    ]
    table = Table("What machines asked of each other, all ranks", ["", "nodes or rows", "remote", "of them cached", "sent"], table_rows, is_open=True)
    return Section(title, seen, advice, charts=[chart], tables=[table])


def rank_epochs(run: Run) -> list[Record]:
    """Records with one object per rank: `ranks`, or `traffic` of runs from before there was one."""
    return run.of("ranks") or run.of("traffic")


def _rank_sums(records: list[Record]) -> dict[int, Record]:
    """Seconds per rank in a mean epoch; the place and the memory as they were last."""
    sums: dict[int, Record] = {}
    epochs = len(typical(records))
    fields = ("compute_seconds", "wait_seconds", "sum_seconds", "sample_seconds", "gather_seconds")
    for record in typical(records):
        for rank in record.get("ranks", []):
            mine = sums.setdefault(int(rank["rank"]), dict.fromkeys(fields, 0.0))
            for field in fields:
                mine[field] += float(rank.get(field) or 0) / epochs
            mine.update({name: rank[name] for name in ("machine", "host", "device", "peak_host_bytes", "peak_device_bytes") if name in rank})
    return sums


def _busy(sums: dict[int, Record]) -> dict[int, float]:
    """Seconds without those of waiting for other ranks."""
    return {rank: values["compute_seconds"] + values["wait_seconds"] for rank, values in sums.items()}


def stragglers(sums: dict[int, Record]) -> list[int]:
    """Ranks for which the others wait: busy for clearly longer than the median, and the least in waiting for the others."""
    if len(sums) < 2:
        return []
    busy = _busy(sums)
    middle = statistics.median_low(busy.values())
    waited = statistics.median_high(values["sum_seconds"] for values in sums.values())
    return [rank for rank in sums if middle > 0 and busy[rank] > STRAGGLES * middle and sums[rank]["sum_seconds"] < waited]


def ranks(run: Run) -> Section:
    title = "Ranks"
    sums = _rank_sums(rank_epochs(run))
    if not sums:
        why = "No epoch has ended yet." if not run.epochs else "Times per rank are not recorded: runs of Strata 0.2 record them."
        return Section(title, missing=why)
    slow = stragglers(sums)
    most = max(sums, key=lambda rank: sums[rank]["sum_seconds"])
    seen, advice = f"{words.plural(len(sums), 'rank')}", ""
    if len(sums) == 1:
        seen = "One rank, which waits for no other."
    elif slow:
        seen += f"; the others wait for rank {words.listed([str(r) for r in slow])}. "
        seen += f"Rank {most} waited longest for the sum of gradients ({words.seconds(sums[most]['sum_seconds'])} per epoch)."
        advice = "Look at what is different there: other programs, fewer cores, a slower GPU or link, colder parts."
    else:
        least, longest = min(_busy(sums).values()), max(_busy(sums).values())
        between = f"{words.seconds(least)} to {words.seconds(longest)} per epoch"
        seen += f" work evenly: each is busy for {between}." if longest <= STRAGGLES * least else f" are busy for {between}, but no rank is the one that all the others wait for."
    names = [f"rank {rank}" for rank in sums]
    parts = [("compute", "compute_seconds"), ("wait for batches", "wait_seconds"), ("sum over ranks", "sum_seconds")]
    series = [Series(name, names, [values[field] for values in sums.values()]) for name, field in parts]
    chart = Chart(horizontal(series, Axes("seconds per epoch", "")), f"Where the time of each rank went. {seen}")
    on_gpus = any(values.get("peak_device_bytes") for values in sums.values())
    peaks = ["peak_host_bytes", "peak_device_bytes"] if on_gpus else ["peak_host_bytes"]
    table_rows = []
    for rank, values in sums.items():
        place = [Cell(str(values.get(name, "–"))) for name in ("machine", "host", "device")]
        times = [cells.seconds(values[f"{name}_seconds"]) for name in ("compute", "wait", "sum", "sample", "gather")]
        memory = [cells.size(values.get(name)) for name in peaks]
        label = f"{rank} (straggler)" if rank in slow else str(rank)
        table_rows.append([Cell(label, rank, mark=rank in slow), *place, *times, *memory])
    header = ["rank", "machine", "host", "device", "compute", "wait for batches", "sum over ranks", "sample", "gather", "host memory"]
    if on_gpus:
        header.append("GPU memory")
    return Section(title, seen, advice, charts=[chart], tables=[Table("All ranks, a mean epoch", header, table_rows, is_open=len(table_rows) <= 16)])
