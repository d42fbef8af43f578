# SPDX-License-Identifier: Apache-2.0
"""strata-watch: follows a run from another shell, from the files in its folder only."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import record, words
from .run import ReportError, Run, is_locked, read_run

if TYPE_CHECKING:
    from rich.table import Table

BAD_INPUT = 2
BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-=*#"
LABEL_COLUMNS = 12
LEAST_COLUMNS = 20
LAST_WARNINGS = 3


def curve(values: Sequence[float], columns: int, blocks: str = BLOCKS) -> str:
    """The values as a line of blocks from the lowest to the highest, with means where there are more values than columns."""
    if not values:
        return ""
    if len(values) > columns:
        bounds = [i * len(values) // columns for i in range(columns + 1)]
        values = [sum(values[a:b]) / (b - a) for a, b in zip(bounds, bounds[1:])]
    low, high = min(values), max(values)
    if high == low:
        return blocks[0] * len(values)
    return "".join(blocks[round((v - low) / (high - low) * (len(blocks) - 1))] for v in values)


def stages(run: Run) -> str:
    epoch = run.epochs[-1]
    whole = float(epoch.get("seconds") or 0)
    parts = [(name, float(epoch.get(f"{field}_seconds") or 0)) for name, field in (("compute", "compute"), ("wait", "wait"), ("sum", "sum"))]
    return ", ".join(f"{name} {words.percent(value, whole)}" for name, value in parts)


def memory(run: Run) -> str:
    ranks = run.last("ranks").get("ranks") or [run.epochs[-1]]
    host = max(float(rank.get("peak_host_bytes") or 0) for rank in ranks)
    device = max(float(rank.get("peak_device_bytes") or 0) for rank in ranks)
    return f"{words.size(host)} per rank at most" + (f", {words.size(device)} on its GPU" if device else "")


def time_left(run: Run) -> str:
    """The time left by the mean epoch and evaluation, while the run lasts."""
    planned = run.options.get("epochs")
    if run.state != "running" or not isinstance(planned, int) or not run.epochs:
        return ""
    left = planned - int(run.epochs[-1]["epoch"])
    spent = [sum(float(e.get("seconds") or 0) for e in records) / max(len(records), 1) for records in (run.epochs, run.evaluations)]
    every = int(run.options.get("eval-every") or 0)
    return f", about {words.seconds(left * (spent[0] + (spent[1] / every if every else 0)))} left"


def lines(run: Run, columns: int, blocks: str = BLOCKS) -> list[tuple[str, str]]:
    """The shown lines, as pairs of a label and a text."""
    room = max(LEAST_COLUMNS, columns - LABEL_COLUMNS)
    shown = [("run", str(run.folder)), ("state", record.STATES[run.state] + time_left(run)), ("epochs", record.progress(run))]
    steps = run.of("step")
    if steps and run.state == "running":
        shown.append(("step", f"{steps[-1]['step']:,} of {run.start.get('steps_per_epoch', 0):,} in epoch {steps[-1]['epoch']:,}, loss {words.number(steps[-1].get('loss'))}"))
    if not run.epochs:
        return shown
    losses = [float(e["loss"]) for e in run.epochs if e.get("loss") is not None]
    if losses:
        shown += [("loss", f"{words.number(losses[0])} → {words.number(losses[-1])}"), ("", curve(losses, room, blocks))]
    scored = [v for e in run.evaluations if (v := run.score(e, "valid")) is not None]
    if scored:
        best = f"best {words.number(run.score(run.best, 'valid'))} in epoch {run.best['epoch']:,}"
        if (test := run.score(run.best, "test")) is not None:
            best += f", test {words.number(test)}"
        shown += [(words.metric(run.metric), f"{words.number(scored[-1])}, {best}"), ("", curve(scored, room, blocks))]
    last = run.epochs[-1]
    shown.append(("speed", f"{words.count(last.get('seeds_per_second'))} seeds/s, {words.seconds(last.get('seconds'))} per epoch"))
    shown += [("stages", stages(run)), ("memory", memory(run))]
    return shown


def table(run: Run, columns: int, encoding: str) -> Table:
    from rich.table import Table as RichTable
    from rich.text import Text

    blocks = BLOCKS if encoding.lower().startswith("utf") else ASCII_BLOCKS
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for label, text in lines(run, columns, blocks):
        grid.add_row(label, Text(words.printable(text, encoding)))
    warnings = [warning.split(" ", 2)[-1] for warning in run.warnings[-LAST_WARNINGS:]]
    for warning in [*([record.damage(run)] if run.damaged_lines else []), *warnings]:
        grid.add_row("warning", Text(words.printable(warning, encoding)))
    return grid


def wait_for(folder: pathlib.Path, every: float) -> Run:
    """The run, once it has loaded its graph. Raises ReportError if no process will write it."""
    lock = folder / "strata.lock"
    announced = False
    while True:
        lasts = is_locked(lock)  # before reading, so that a run that ends meanwhile is read once more
        try:
            return read_run(folder)
        except ReportError as error:
            if not lasts and lock.exists():
                text = f"{folder}: no run so far, and no process of this host holds its strata.lock: it ended before it wrote metrics.jsonl"
                raise ReportError(text, f"Read {folder / 'train.log'}, and train again.") from error
            if not lasts:
                raise
        if not announced:
            print(words.printable(f"{folder}: waits for the run to load its graph; it has no metrics yet", sys.stderr.encoding), file=sys.stderr, flush=True)
            announced = True
        time.sleep(every)


def follow(folder: pathlib.Path, every: float, once: bool) -> Run:
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError as error:
        raise ReportError("strata-watch needs the Python package rich", "pip install rich") from error
    console = Console(highlight=False)
    run = read_run(folder) if once else wait_for(folder, every)
    if once or not console.is_terminal:
        if not once:
            print_line(f"{run.folder}: {record.STATES[run.state]}, {record.progress(run)} epochs")
        while run.state == "running" and not once:
            printed = len(run.epochs)
            while run.state == "running" and len(run.epochs) == printed:
                time.sleep(every)
                run = read_run(folder)
            print_epochs(run, printed)
        console.print(table(run, console.width, console.encoding))
        return run
    with Live(table(run, console.width, console.encoding), console=console, auto_refresh=False) as live:
        while run.state == "running":
            time.sleep(every)
            run = read_run(folder)
            live.update(table(run, console.width, console.encoding), refresh=True)
    return run


def print_epochs(run: Run, printed: int) -> None:
    """Prints one line per new epoch, where there is no terminal."""
    for epoch in run.epochs[printed:]:
        rate = words.count(epoch.get("seeds_per_second"))
        print_line(f"epoch {epoch['epoch']}  loss {words.number(epoch.get('loss'))}  {words.seconds(epoch.get('seconds'))}  {rate} seeds/s")


def print_line(line: str) -> None:
    print(words.printable(line, sys.stdout.encoding), flush=True)


def parser(program: str) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=program, description="Follows a run of strata-train until it ends: epochs, loss, scores, stages, memory. Reads the files in its folder only."
    )
    options.add_argument("run", metavar="RUN", type=pathlib.Path, nargs="?", default=pathlib.Path("runs/last"), help="folder of the run (default: %(default)s)")
    options.add_argument("--every", metavar="SECONDS", type=float, default=1.0, help="how often the files are read (default: %(default)s)")
    options.add_argument("--once", action="store_true", help="show the run as it is now, and end")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if the run finished, 75 if it was stopped with a checkpoint, 1 if it was killed or failed."""
    program = os.environ.get("STRATA_PROGRAM", "strata-watch")
    options = parser(program).parse_args(arguments)
    if not 0.01 <= options.every <= 3600:
        print(f"{program}: --every {options.every}: not a time\n  Give seconds between 0.01 and 3600.", file=sys.stderr)
        return BAD_INPUT
    try:
        run = follow(options.run, options.every, options.once)
    except ReportError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    return {"killed": 1, "stopped": 75}.get(run.state, 0)


if __name__ == "__main__":
    sys.exit(main())
