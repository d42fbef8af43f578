# SPDX-License-Identifier: Apache-2.0
"""A run as its folder records it: metrics.jsonl, config.toml, train.log, strata.lock and the trace, whichever are there."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import re
import time
from typing import Any

from .schema import is_sound

Record = dict[str, Any]

LOCK_PATIENCE_SECONDS = 30  # how long an owner that cannot be seen from here may be silent


class ReportError(ValueError):
    """An obstacle to a report, with its `remedy`."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}\n  {remedy}")
        self.remedy = remedy


@dataclasses.dataclass(frozen=True)
class Run:
    """The contents of a run's files; nothing here is computed from more than one record, except sums over epochs."""

    folder: pathlib.Path
    records: list[Record]
    damaged_lines: list[int]  # their numbers, from 1
    is_locked: bool
    config: str
    log: list[str]

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["type"] == kind]

    def last(self, kind: str) -> Record:
        """The last record of a kind; empty if there is none."""
        return next((record for record in reversed(self.records) if record["type"] == kind), {})

    @property
    def name(self) -> str:
        return self.folder.name or str(self.folder)

    @functools.cached_property
    def start(self) -> Record:
        """The record of the start of the run, or of its last continuation."""
        return self.last("run")

    @property
    def options(self) -> Record:
        options = self.start.get("options", {})
        return options if isinstance(options, dict) else {}

    @property
    def is_on_gpus(self) -> bool:
        return self.start.get("device") != "cpu"

    @property
    def metric(self) -> str:
        return str(self.options.get("metric", "accuracy"))

    @functools.cached_property
    def epochs(self) -> list[Record]:
        return self.of("epoch")

    @functools.cached_property
    def evaluations(self) -> list[Record]:
        return self.of("evaluation")

    @functools.cached_property
    def final(self) -> Record:
        """The end of the last continuation; empty if it has not ended, or was killed."""
        last_start = max((i for i, record in enumerate(self.records) if record["type"] == "run"), default=0)
        ends = [record for record in self.records[last_start:] if record["type"] == "final"]
        return ends[-1] if ends else {}

    @property
    def state(self) -> str:
        """"finished", "stopped" (with a checkpoint), "running" or "killed"."""
        if self.final:
            return "stopped" if self.final.get("stopped") else "finished"
        return "running" if self.is_locked else "killed"

    @property
    def resumes(self) -> int:
        return max(0, len(self.of("run")) - 1)

    @functools.cached_property
    def elapsed(self) -> dict[int, float]:
        """Seconds of training, without evaluation, at the end of each epoch."""
        seconds, ends = 0.0, {}
        for epoch in self.epochs:
            seconds += float(epoch.get("seconds") or 0)
            ends[int(epoch["epoch"])] = seconds
        return ends

    def score(self, evaluation: Record, split: str) -> float | None:
        """The value of the run's metric, if there is one."""
        value = measured(evaluation, split).get(self.metric)
        return float(value) if value is not None else None

    @functools.cached_property
    def best(self) -> Record:
        """The evaluation of the epoch that counts: the first with the best validation score, else the last."""
        scored = [e for e in self.evaluations if self.score(e, "valid") is not None]
        if scored:
            sign = -1 if self.metric == "loss" else 1
            return max(scored, key=lambda e: sign * (self.score(e, "valid") or 0.0))
        return self.evaluations[-1] if self.evaluations else {}

    @property
    def seeds_per_second(self) -> float:
        """Over all epochs that are recorded."""
        seconds = sum(float(e.get("seconds") or 0) for e in self.epochs)
        return sum(float(e.get("seeds") or 0) for e in self.epochs) / seconds if seconds > 0 else 0.0

    @functools.cached_property
    def warnings(self) -> list[str]:
        """Lines of the log that are no mere information."""
        return [line for line in self.log if re.match(r"\S+ (warning|error|critical) ", line)]

    @functools.cached_property
    def trace(self) -> pathlib.Path | None:
        """The file of --trace, if it can be found."""
        name = str(self.options.get("trace") or "")
        if not name:
            return None
        found = re.search(r"^# in (.+)$", self.config, re.MULTILINE)
        places = [pathlib.Path(found.group(1))] if found else []
        return next((p / name for p in [*places, self.folder, pathlib.Path()] if (p / name).is_file()), None)


def measured(evaluation: Record, split: str) -> Record:
    """The scores of an evaluation for a split; empty for one without nodes, for which strata-train writes zeros."""
    values: Record = evaluation.get(split) or {}
    return values if values.get("nodes", 1) else {}


def folder_of(path: str | os.PathLike[str]) -> pathlib.Path:
    """The folder of a run; the user may have named a file of it."""
    folder = pathlib.Path(path)
    return folder.parent if folder.is_file() else folder


def names_parts(path: str | os.PathLike[str]) -> bool:
    """Whether a path names the facts about a partition, and no run."""
    return pathlib.Path(path).suffix == ".json" and not (folder_of(path) / "metrics.jsonl").is_file()


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Reads the folder of a run, or the run that a file in it belongs to. Raises ReportError."""
    path = folder_of(folder)
    if not path.is_dir():
        raise ReportError(f"{path}: no such directory", "Name a folder that strata-train wrote, such as runs/last.")
    metrics = path / "metrics.jsonl"
    if not metrics.is_file():
        raise ReportError(
            f"{path}: no run: it has no metrics.jsonl",
            "Name a folder that strata-train wrote; a run that still loads its graph has no metrics yet.",
        )
    records, damaged = read_records(metrics)
    if not any(record["type"] == "run" for record in records):
        found = f"it has {len(records) + len(damaged)} lines, of which {len(damaged)} cannot be read" if records or damaged else "it is empty"
        raise ReportError(f"{metrics}: no record of a run: {found}", "Name the folder of a run that has begun, or train it again.")
    return Run(
        folder=path.resolve(),
        records=records,
        damaged_lines=damaged,
        is_locked=is_locked(path / "strata.lock"),
        config=read_text(path / "config.toml"),
        log=read_text(path / "train.log").splitlines(),
    )


def read_text(path: pathlib.Path) -> str:
    """Empty if the file is not there or cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def read_records(path: pathlib.Path) -> tuple[list[Record], list[int]]:
    """The records of metrics.jsonl, and the numbers of the lines that are none. A last line without its end is still being written."""
    try:
        lines = path.read_text(errors="replace").splitlines(keepends=True)
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}", "Give a run that this user may read.") from error
    records: list[Record] = []
    damaged: list[int] = []
    for number, line in enumerate(lines, start=1):
        if not line.endswith("\n"):
            continue
        record = parse_record(line)
        if record is None:
            damaged.append(number)
        else:
            records.append(record)
    return records, damaged


def parse_record(line: str) -> Record | None:
    """A number that is not finite is none, as strata-train writes it."""
    try:
        record = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return record if is_sound(record) else None


def is_locked(lock: pathlib.Path) -> bool:
    """Whether a process trains there: one that can be seen from here, or else one that renewed its lock of late."""
    try:
        owner = json.loads(lock.read_text())
        age = time.time() - lock.stat().st_mtime
    except (OSError, ValueError):
        return False
    if not isinstance(owner, dict):
        return age < LOCK_PATIENCE_SECONDS
    here = (read_text(pathlib.Path("/proc/sys/kernel/random/boot_id")).strip(), _pid_namespace())
    if (owner.get("boot"), owner.get("pid_namespace")) != here:
        return age < LOCK_PATIENCE_SECONDS
    return _start_of(owner.get("pid")) == owner.get("started")


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _start_of(pid: object) -> str:
    """The start time of a process, in ticks since the boot; empty if it has ended."""
    fields = read_text(pathlib.Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    state, start = 0, 19  # fields 3 and 22 of proc(5); the name, which is the second, may contain blanks
    if len(fields) <= start or fields[state] in "ZX":
        return ""
    return fields[start]
