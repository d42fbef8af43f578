# SPDX-License-Identifier: Apache-2.0
"""The page about a partition, from the facts that strata-partition writes as JSON."""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Sequence

from . import cells, words
from .charts import Axes, Series, horizontal, matrix, stacked
from .page import Cell, Chart, Headline, Page, Section, Table, render
from .run import Record, ReportError

MOST_CELLS = 64  # of the matrix per side
MOST_ROWS = 1024
NO_BETTER = 0.9  # of the edges that nodes dealt at random would cut


def read(path: str | os.PathLike[str]) -> Record:
    """Raises ReportError."""
    try:
        facts = json.loads(pathlib.Path(path).read_text())
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}", "Name a file that strata-partition build --report wrote.") from error
    except ValueError:
        facts = None
    if not isinstance(facts, dict) or not {"num_parts", "constraints", "parts"} <= facts.keys():
        raise ReportError(f"{path}: no facts about a partition", "Name a file that strata-partition build --report, or info --json, wrote.")
    return facts


def draw(facts: Record) -> Page:
    """Raises ReportError if a package is missing."""
    return render(headline(facts), [make(facts) for make in (cut, balance, halo, degrees, phases)])


def headline(facts: Record) -> Headline:
    edges = int(facts["num_edges"])
    shown = [
        ("Method", f"{facts['method']}, seed {facts['seed']}"),
        ("Nodes", words.count(facts["num_nodes"])),
        ("Edges", words.count(edges)),
        ("Edges between parts", f"{facts['cut_edges']:,} ({words.percent(facts['cut_edges'], edges)})"),
        ("Halo nodes", words.count(facts["halo_nodes"])),
        ("Replication factor", words.number(facts["replication_factor"], 3)),
        ("Size on disk", words.size(facts["bytes"]["total"])),
    ]
    title = f"{facts['name'] or 'A graph'} in {words.plural(facts['num_parts'], 'part')}"
    return Headline(title, f"{facts['input']}{', in ' + facts['path'] if 'path' in facts else ''}", shown)


def _by_chance(facts: Record) -> float:
    """The share of edges that would leave their part if nodes were dealt at random."""
    shares: list[float] = [part["nodes"] / facts["num_nodes"] for part in facts["parts"]]
    return 1 - sum(share * share for share in shares)


def _cut_seen(facts: Record) -> tuple[str, str]:
    edges = facts["num_edges"]
    if facts["num_parts"] == 1 or edges == 0:
        return "", ""
    share, chance = facts["cut_edges"] / edges, _by_chance(facts)
    seen = f"{100 * share:.1f} % of all edges join nodes of different parts; {100 * chance:.1f} % would if nodes were dealt at random."
    if share <= NO_BETTER * chance:
        return seen, ""
    return f"{seen} The parts follow no structure of the graph.", "--method multilevel looks for parts with few edges between them."


def between(facts: Record) -> list[list[int]]:
    """Edges by the part that they go to and the part that they come from, where many parts share a row and a column."""
    parts, edges = facts["num_parts"], facts["edges_between"]
    width = -(-parts // MOST_CELLS)
    side = -(-parts // width)
    sums = [[0] * side for _ in range(side)]
    for i, count in enumerate(edges):
        sums[i // parts // width][i % parts // width] += count
    return sums


def depths(sums: Sequence[Sequence[int]]) -> list[list[float]]:
    """The darkness of each cell: in a good partition the diagonal is dark and the rest pale."""
    most = math.log1p(max(max(row) for row in sums))
    return [[(math.log1p(count) / most) ** 2 if most else 0.0 for count in row] for row in sums]


def cut(facts: Record) -> Section:
    title = "Edges between parts"
    seen, advice = _cut_seen(facts)
    if "edges_between" not in facts:
        return Section(title, seen, advice, missing="Edges were not counted by their parts: --report counts them, for at most 1024 parts.")
    sums = between(facts)
    width = -(-facts["num_parts"] // len(sums))
    names = [str(i * width) if width == 1 else f"{i * width}–{min((i + 1) * width, facts['num_parts']) - 1}" for i in range(len(sums))]
    texts = [[words.short_count(count) for count in row] for row in sums]
    figure = matrix(depths(sums), names, texts, Axes("from part", "to part"), "from part %{x} to part %{y}", "shade")
    seen += " The darker, the more edges; in a good partition the diagonal is dark and the rest pale."
    return Section(title, seen.strip(), advice, charts=[Chart(figure, f"Edges between parts. {seen}")])


def _is_uneven(constraint: Record) -> bool:
    """Whether the largest part exceeds what was asked for by more than one node or edge."""
    weights, asked = constraint["weights"], constraint["asked"]
    return asked is not None and constraint["balance"] > asked + 1e-9 and max(weights) > math.ceil(sum(weights) / len(weights))


def _balance_seen(constraint: Record) -> str:
    weights, asked, name = constraint["weights"], constraint["asked"], constraint["name"]
    if sum(weights) == 0:
        return f"The graph has no {name}."
    seen = f"{name}: the largest part has {constraint['balance']:.3f} times the mean of {words.count(sum(weights) / len(weights))}"
    if asked is None:
        return f"{seen} (balance was not asked for)."
    return f"{seen}: more than the {asked:.3f} that were asked for." if _is_uneven(constraint) else f"{seen}, at most {asked:.3f} was asked for."


def balance(facts: Record) -> Section:
    charts = []
    for constraint in facts["constraints"]:
        weights, asked = constraint["weights"], constraint["asked"]
        if sum(weights) == 0:
            continue
        numbers = list(range(len(weights)))
        limit = [] if asked is None else [Series("limit", numbers, [asked * sum(weights) / len(weights)] * len(weights))]
        axes = Axes("part", constraint["name"], whole_x=True, from_zero=True)
        charts.append(Chart(stacked([Series(constraint["name"], numbers, weights)], axes, limit), _balance_seen(constraint)))
    return Section("Balance", " ".join(map(_balance_seen, facts["constraints"])), _uneven_advice(facts["constraints"]), charts=charts)


def _uneven_advice(constraints: Sequence[Record]) -> str:
    uneven = [constraint["name"] for constraint in constraints if _is_uneven(constraint)]
    return f"The parts are too uneven in {words.listed(uneven)}: fewer parts, or another --method." if uneven else ""


def halo(facts: Record) -> Section:
    parts = facts["parts"]
    largest = max(range(len(parts)), key=lambda number: parts[number]["halo_nodes"])
    most = parts[largest]
    seen = "No edge comes from another part."
    if most["halo_nodes"]:
        times = most["halo_nodes"] / max(1, most["nodes"])
        seen = f"Part {largest} has the most: {most['halo_nodes']:,} nodes of other parts beside its own, {times:.2f} times as many."
    series = Series("halo nodes", list(range(len(parts))), [part["halo_nodes"] for part in parts])
    chart = Chart(stacked([series], Axes("part", "halo nodes", whole_x=True, from_zero=True)), f"Halo nodes per part. {seen}")
    header = ["part", "nodes", "edges", "edges from other parts", "halo nodes"]
    fields = ("nodes", "edges", "cut_edges", "halo_nodes")
    rows = [[cells.count(number), *(cells.count(part[field]) for field in fields)] for number, part in enumerate(parts[:MOST_ROWS])]
    caption = "Every part in numbers" if len(parts) <= MOST_ROWS else f"The first {MOST_ROWS:,} parts in numbers; strata-partition info lists all"
    return Section("Halo nodes per part", seen, charts=[chart], tables=[Table(caption, header, rows)])


def _degree_range(power: int) -> str:
    return str(power) if power <= 1 else f"{2 ** (power - 1)} to {2**power - 1}"


def degrees(facts: Record) -> Section:
    title, counts = "Degrees", facts.get("degrees")
    if not counts:
        return Section(title, missing="Degrees were not counted: --report counts them.")
    names = [_degree_range(power) for power in range(len(counts))]
    figure = stacked([Series("nodes", names, counts)], Axes("in-neighbors", "nodes"))
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="log")
    rows = [[Cell(name, power), cells.count(count)] for power, (name, count) in enumerate(zip(names, counts))]
    chart = Chart(figure, "Nodes by the number of their in-neighbors, a bar per power of two, of logarithmic height.")
    return Section(title, "A bar per power of two, of logarithmic height.", charts=[chart], tables=[Table("Nodes by degree", ["in-neighbors", "nodes"], rows)])


def phases(facts: Record) -> Section:
    title, found = "Phases", facts.get("phases")
    if not found:
        return Section(title, missing="These facts do not come from a build.")
    series = Series("seconds", [phase["name"] for phase in found], [phase["seconds"] for phase in found])
    longest = max(found, key=lambda phase: float(phase["seconds"]))
    total = sum(float(phase["seconds"]) for phase in found)
    seen = f"The build took {words.seconds(total)}, the longest phase ({longest['name']}) {words.seconds(longest['seconds'])} of it."
    header = ["phase", "time", "CPU time", "peak memory so far"]
    rows = [[Cell(p["name"]), cells.seconds(p["seconds"]), cells.seconds(p["cpu_seconds"]), cells.size(p["peak_bytes"])] for p in found]
    chart = Chart(horizontal([series], Axes("seconds", "")), f"Seconds of each phase. {seen}")
    return Section(title, seen, charts=[chart], tables=[Table("Every phase", header, rows, is_open=True)])
