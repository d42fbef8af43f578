# SPDX-License-Identifier: Apache-2.0
"""The head of a run's page, and its last sections: what was configured, and what the log warns of."""

from __future__ import annotations

import json
from typing import Any

from . import words
from .page import Cell, Headline, Section, Table
from .run import Run

NEAR_BEST = 0.99  # of the best score: when a run was as good as done
MOST_HOSTS = 4
MOST_WARNINGS = 200
MOST_DAMAGED = 8  # lines that are named

STATES = {
    "finished": "finished",
    "stopped": "stopped by a signal, with a checkpoint",
    "running": "running",
    "killed": "ended without a word: killed, or failed",
}


def time_to_score(run: Run) -> str:
    """Training seconds until the validation score came near the best one."""
    best = run.score(run.best, "valid")
    if best is None or best <= 0 or not run.elapsed or run.metric == "loss":
        return "–"
    first = next(e for e in run.evaluations if (run.score(e, "valid") or 0.0) >= NEAR_BEST * best)
    if first["epoch"] not in run.elapsed:
        return "–"
    return f"{words.seconds(run.elapsed[first['epoch']])} to {words.number(run.score(first, 'valid'))} (epoch {first['epoch']:,})"


def where(run: Run) -> str:
    start = run.start
    hosts = [str(host) for host in start.get("hosts") or []]
    named = f" ({', '.join(hosts[:MOST_HOSTS])}{', …' if len(hosts) > MOST_HOSTS else ''})" if hosts else ""
    return f"{words.plural(int(start.get('ranks', 1)), 'rank')} on {words.plural(int(start.get('machines', 1)), 'machine')}{named}, {start.get('device', '?')}"


def progress(run: Run) -> str:
    """"12 of 20", with what else is worth knowing of it."""
    planned = run.options.get("epochs")
    done = max((int(e["epoch"]) for e in run.epochs), default=0)
    text = f"{done:,} of {planned:,}" if isinstance(planned, int) else f"{done:,}"
    return f"{text}, resumed {words.plural(run.resumes, 'time')}" if run.resumes else text


def model(run: Run) -> str:
    start = run.start
    fanouts = ",".join(str(f) for f in start.get("fanouts") or [])
    return f"{start.get('model', '?')}, fanouts {fanouts}, hidden {start.get('hidden', '?')}"


def headline(run: Run) -> Headline:
    start, best = run.start, run.best
    test = run.score(best, "test")
    metric = words.metric(run.metric)
    facts = [
        ("State", STATES[run.state]),
        ("Graph", f"{words.short_count(float(start.get('nodes') or 0))} nodes, {words.short_count(float(start.get('edges') or 0))} edges"),
        ("Model", model(run)),
        ("Where", where(run)),
        ("Epochs", progress(run)),
        (f"Test {metric}", f"{words.number(test)} at the best epoch, {best['epoch']:,}" if test is not None else "–"),
        (f"Validation {metric}", words.number(run.score(best, "valid"))),
        ("Seeds per second", words.count(run.seeds_per_second) if run.epochs else "–"),
        ("Training time", words.seconds(max(run.elapsed.values())) if run.elapsed else "–"),
        (f"Time to {NEAR_BEST:.0%} of the best score".replace("%", " %"), time_to_score(run)),
        ("Started", str(start.get("started") or "–").replace("T", " ")),
    ]
    return Headline(run.name, f"{start.get('model', 'a model')} on {start.get('graph', 'a graph')}, in {run.folder}", facts)


def shown(value: Any) -> str:
    """An option's value, as on a command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ",".join(shown(v) for v in value)
    return value if isinstance(value, str) else json.dumps(value)


def given_by(config: str) -> dict[str, str]:
    """The origin of each option's value, from the comments of config.toml."""
    sources = {}
    for line in config.splitlines():
        name, _, rest = line.removeprefix("# ").partition(" = ")
        if rest and "  # " in rest:
            sources[name] = rest.rpartition("  # ")[2]
    return sources


def configuration(run: Run) -> Section:
    sources = given_by(run.config)
    changed = {name for name, source in sources.items() if source != "default"}
    rows = []
    for name in sorted(run.options, key=lambda n: (n not in changed, n)):
        value = shown(run.options[name])
        rows.append([Cell(f"--{name}"), Cell(value or "–", mark=name in changed), Cell(sources.get(name, "–"))])
    start = run.start
    versions = [("Strata", start.get("strata")), *[_library(text) for text in start.get("libraries") or []], ("Parts by", start.get("parts_by"))]
    tables = [Table(f"All {len(rows)} options", ["option", "value", "given by"], rows)] if rows else []
    cells = [[Cell(name), Cell(str(version))] for name, version in versions if version]
    if cells:
        tables.append(Table("Versions", ["what", "version"], cells))
    seen = f"{words.plural(len(changed), 'option')} differ{'s' if len(changed) == 1 else ''} from the defaults." if sources else ""
    missing = "" if rows else "This run is older than the record of options."
    return Section("Configuration", seen, missing=missing, tables=tables, text=str(start.get("command") or ""))


def _library(text: str) -> tuple[str, str]:
    name, _, version = text.rpartition(" ")
    return name, version


def damage(run: Run) -> str:
    """The lines of the metrics that cannot be read; empty if all can."""
    if not run.damaged_lines:
        return ""
    named = [f"{n:,}" for n in run.damaged_lines[:MOST_DAMAGED]] + ["…"] * (len(run.damaged_lines) > MOST_DAMAGED)
    one = len(run.damaged_lines) == 1
    return f"metrics.jsonl: {words.plural(len(run.damaged_lines), 'line')} cannot be read and {'is' if one else 'are'} left out: {', '.join(named)}"


def warnings(run: Run) -> Section:
    title = "Warnings"
    lines = run.warnings[-MOST_WARNINGS:]
    if run.damaged_lines:
        lines = [damage(run), *lines]
    if run.state == "killed":
        lines.append(f"The run did not end by itself. strata-train --resume {run.folder} goes on from its last checkpoint.")
    if not lines:
        return Section(title, "The log has no warnings." if run.log else "", missing="" if run.log else "There is no train.log.")
    return Section(title, f"{words.plural(len(lines), 'line')} to read.", text="\n".join(lines))
