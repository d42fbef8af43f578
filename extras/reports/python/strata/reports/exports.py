# SPDX-License-Identifier: Apache-2.0
"""A run's numbers for other programs: TensorBoard's event files and MLPerf's log lines."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import pathlib
import time
from collections.abc import Iterator

from . import compare, record
from .files import write_whole
from .run import Record, ReportError, Run, measured

EPOCH_NUMBERS = (
    *("loss", "train_accuracy", "seconds", "seeds_per_second", "peak_host_bytes"),
    *("sample_seconds", "gather_seconds", "wait_seconds", "compute_seconds", "sum_seconds"),
)
SCORES = ("loss", "accuracy", "macro_f1", "roc_auc")


def times_of(run: Run) -> list[float]:
    """The time of each record, in seconds since 1970. For runs that did not record it: the start, and the time of epochs and
    evaluations since."""
    times, now = [], 0.0
    for item in run.records:
        if item["type"] == "run" and "started" in item:
            with contextlib.suppress(ValueError):
                now = time.mktime(time.strptime(item["started"], "%Y-%m-%dT%H:%M:%S"))
        elif item["type"] in ("epoch", "evaluation"):
            now += float(item.get("seconds") or 0)
        now = float(item.get("time", now))
        times.append(now)
    return times


def write_tensorboard(runs: list[Run], folder: pathlib.Path) -> None:
    """A folder of event files per run; steps count epochs, and training steps where they were logged. Raises ReportError."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise ReportError("--tensorboard needs the Python package tensorboardX", "pip install tensorboardX") from error
    for run in runs:
        if next(scalars(run), None) is None:
            raise ReportError(f"{run.folder}: --tensorboard needs a run with an epoch", "Wait for its first epoch, or set --log-every 1.")
    for run, name in zip(runs, compare.names_of(runs)):
        target = folder / name
        if target.is_dir() and any(target.glob("events.out.tfevents.*")):
            raise ReportError(f"--tensorboard: {target} has event files already", "Name another folder, or remove them.")
        try:
            with SummaryWriter(str(target)) as writer:
                for tag, value, step, when in scalars(run):
                    writer.add_scalar(tag, value, step, walltime=when)
                options = "\n".join(f"    --{name} {record.shown(value)}" for name, value in sorted(run.options.items()))
                writer.add_text("options", options or "not recorded", 0)
        except OSError as error:
            raise ReportError(f"--tensorboard: cannot write {target}: {error.strerror}", "Name a folder that this user may write.") from error


def scalars(run: Run) -> Iterator[tuple[str, float, int, float]]:
    """(tag, value, step, time) of all that is a curve."""
    for item, when in zip(run.records, times_of(run)):
        kind = item["type"]
        if kind == "epoch":
            yield from _values("epoch", item, EPOCH_NUMBERS, item["epoch"], when)
        elif kind == "evaluation":
            for split in ("valid", "test"):
                yield from _values(split, measured(item, split), SCORES, item["epoch"], when)
        elif kind == "step":
            per_epoch = int(run.start.get("steps_per_epoch") or 0)
            yield from _values("step", item, ("loss", "train_accuracy"), (item["epoch"] - 1) * per_epoch + int(item.get("step", 0)), when)


def _values(group: str, item: Record, names: tuple[str, ...], step: int, when: float) -> Iterator[tuple[str, float, int, float]]:
    for name in names:
        if item.get(name) is not None:
            yield f"{group}/{name}", float(item[name]), step, when


@dataclasses.dataclass(frozen=True)
class Submission:
    """The fields that MLPerf asks for and a run does not know."""

    benchmark: str = "rgat"
    org: str = "none"
    platform: str = ""  # default: the hosts' device


def write_mllog(run: Run, path: pathlib.Path, submission: Submission) -> None:
    """MLPerf's lines of a run. Raises ReportError for a run without an evaluation."""
    if not run.epochs or not run.evaluations:
        raise ReportError(f"{run.folder}: --mllog needs a run with an epoch and an evaluation", "Wait for them, or lower --eval-every.")
    write_whole(path, "".join(f":::MLLOG {json.dumps(line)}\n" for line in mllog_lines(run, submission)))


def mllog_lines(run: Run, submission: Submission) -> Iterator[Record]:
    """The records of MLPerf's training log, in order of time. Loading lies between init_start and init_stop."""
    times = times_of(run)
    begin = times[next(i for i, item in enumerate(run.records) if item["type"] == "run")]
    yield from _submission_lines(run, submission, _load_start(run, begin))
    yield _line("init_stop", None, begin, "INTERVAL_END")
    yield _line("run_start", None, begin, "INTERVAL_START")
    end = begin
    for item, when in zip(run.records, times):
        if item["type"] not in ("epoch", "evaluation"):
            continue
        start = max(end, when - float(item.get("seconds") or 0))
        yield from _interval_lines(run, item, start, max(start, when))
        end = max(start, when)
    status = "success" if run.state == "finished" else "aborted"
    yield _line("run_stop", None, end, "INTERVAL_END", status=status)


def _submission_lines(run: Run, submission: Submission, when: float) -> Iterator[Record]:
    start, options = run.start, run.options
    values = {
        "submission_benchmark": submission.benchmark,
        "submission_division": "open",
        "submission_org": submission.org,
        "submission_platform": submission.platform or record.where(run),
        "submission_status": "research",
        "cache_clear": True,
    }
    for key, value in values.items():
        yield _line(key, value, when)
    yield _line("init_start", None, when, "INTERVAL_START")
    facts = {
        "seed": start.get("seed", 0),
        "global_batch_size": start.get("global_batch_size", 0),
        "gradient_accumulation_steps": options.get("accumulate", 1),
        "opt_name": options.get("optimizer", "adam"),
        "opt_base_learning_rate": options.get("lr", 0.0),
        "train_samples": max(int(e.get("seeds") or 0) for e in run.epochs),
        "eval_samples": int(measured(run.evaluations[-1], "valid").get("nodes") or 0),
    }
    for key, value in facts.items():
        yield _line(key, value, when)


def _interval_lines(run: Run, item: Record, start: float, stop: float) -> Iterator[Record]:
    what = "epoch" if item["type"] == "epoch" else "eval"
    epoch = item["epoch"]
    yield _line(f"{what}_start", None, start, "INTERVAL_START", epoch_num=epoch)
    if what == "eval":
        score = run.score(item, "valid")
        if score is not None:
            yield _line("eval_accuracy", score, stop, epoch_num=epoch)
    yield _line(f"{what}_stop", None, stop, "INTERVAL_END", epoch_num=epoch)


def _line(key: str, value: object, when: float, kind: str = "POINT_IN_TIME", **metadata: object) -> Record:
    return {
        "namespace": "",
        "time_ms": round(when * 1000),
        "event_type": kind,
        "key": key,
        "value": value,
        "metadata": {"file": "strata-report", "lineno": 0, **metadata},
    }


def _load_start(run: Run, begin: float) -> float:
    """The time at which the log begins; times in it are local ones."""
    for line in run.log:
        with contextlib.suppress(ValueError):
            local = datetime.datetime.strptime(line.split(" ", 1)[0], "%Y-%m-%dT%H:%M:%S.%f")
            return min(begin, local.timestamp())
    return begin
