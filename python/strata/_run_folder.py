# SPDX-License-Identifier: Apache-2.0
"""The folder of a run: the files of strata-train that reports read, and a checkpoint of torch's. The first rank writes."""

from __future__ import annotations

import datetime
import json
import math
import os
import pathlib
import socket
import time
from typing import Any

import torch
from torch import Tensor

from strata._process import process, together
from strata.errors import InputError

_METRICS, _MODEL, _CHECKPOINT, _LOCK = "metrics.jsonl", "model.safetensors", "checkpoint.pt", "strata.lock"


class RunFolder:
    """An owner of its lock, which close() removes. All ranks make it and call what is not private; only the first does anything."""

    def __init__(self, model: str, output: str | None, overwrite: bool, resume: str | None) -> None:
        """Collective. InputError on all ranks if the folder cannot be used."""
        self._is_writer = process().rank == 0
        self._owner = _owner()
        self.records: list[dict[str, Any]] = []

        def choose() -> str:
            if not self._is_writer:
                return ""
            folder = _next_of(model) if output is None and resume is None else pathlib.Path(resume or output or "")
            _check(folder, overwrite, resume is not None)
            folder.mkdir(parents=True, exist_ok=True)
            self._lock(folder)
            if resume is None:
                for name in (_METRICS, _MODEL, _CHECKPOINT):
                    (folder / name).unlink(missing_ok=True)
            return str(folder)

        self.path = pathlib.Path(process().broadcast(together(choose), 0))

    def _lock(self, folder: pathlib.Path) -> None:
        lock = folder / _LOCK
        try:
            owner = json.loads(lock.read_text())
        except (OSError, ValueError):
            owner = {}
        seen = (owner.get("boot"), owner.get("pid_namespace")) == (self._owner["boot"], self._owner["pid_namespace"])
        if seen and owner.get("started") and _started(owner.get("pid")) == owner["started"]:
            raise InputError(f"{folder}: process {owner['pid']} on host {owner.get('host')} trains there", "Give another folder.")
        _replace(lock, json.dumps(self._owner).encode())

    def write(self, record: dict[str, Any]) -> None:
        """Adds a record, with its time; numbers that are not finite become null."""
        if self._is_writer:
            line = {"type": record["type"], "time": time.time()} | {key: _finite(value) for key, value in record.items()}
            self.records.append(line)
            with (self.path / _METRICS).open("a") as file:
                file.write(json.dumps(line) + "\n")

    def save_model(self, weights: dict[str, Tensor]) -> None:
        """Writes model.safetensors."""
        if self._is_writer:
            _replace(self.path / _MODEL, _safetensors(weights))

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replaces the checkpoint."""
        if self._is_writer:
            unfinished = self.path / f"{_CHECKPOINT}.unfinished"
            torch.save(state, unfinished)
            unfinished.replace(self.path / _CHECKPOINT)

    def checkpoint(self) -> dict[str, Any] | None:
        """The checkpoint, on the first rank; records of what was lost after it are removed."""
        if not self._is_writer:
            return None
        try:
            state: dict[str, Any] = torch.load(self.path / _CHECKPOINT, map_location="cpu", weights_only=True)
        except Exception as error:
            raise InputError(f"{self.path / _CHECKPOINT} cannot be read: {error}", "Train again, without resume.") from None
        lines = [json.loads(line) for line in (self.path / _METRICS).read_text().splitlines()]
        self.records = [line for line in lines if line.get("epoch", 0) <= state["epoch"] and line["type"] != "final"]
        _replace(self.path / _METRICS, "".join(json.dumps(line) + "\n" for line in self.records).encode())
        return state

    def close(self) -> None:
        """Removes the lock; may be called again."""
        if self._is_writer:
            (self.path / _LOCK).unlink(missing_ok=True)


def _next_of(model: str) -> pathlib.Path:
    """Makes runs/MODEL-DATE-NUMBER, and links runs/last to it."""
    runs, stem = pathlib.Path("runs"), f"{model.lower()}-{datetime.date.today().isoformat()}"
    runs.mkdir(exist_ok=True)
    number = 1
    while (runs / f"{stem}-{number}").exists():
        number += 1
    folder = runs / f"{stem}-{number}"
    folder.mkdir()
    last, fresh = runs / "last", runs / f"{folder.name}.link"
    if last.is_symlink() or not last.exists():
        try:
            fresh.symlink_to(folder.name)
            fresh.replace(last)
        except OSError:
            fresh.unlink(missing_ok=True)  # the link only helps people
    return folder


def _check(folder: pathlib.Path, overwrite: bool, resumes: bool) -> None:
    if resumes and not (folder / _CHECKPOINT).is_file():
        hint = "strata.train(resume=...) continues it." if (folder / "checkpoint.safetensors").is_file() else "Give the folder of a run of strata.fit()."
        raise InputError(f"{folder} has no checkpoint of strata.fit()", hint)
    has_run = any((folder / name).exists() for name in (_METRICS, _MODEL, _CHECKPOINT, "checkpoint.safetensors"))
    if has_run and not overwrite and not resumes:
        raise InputError(f"{folder} has a run already", f"Continue it (resume={str(folder)!r}), replace it (overwrite=True), or give another folder.")


def _owner() -> dict[str, Any]:
    """This process, as strata-train's locks name theirs."""
    namespace = os.readlink("/proc/self/ns/pid") if os.path.exists("/proc/self/ns/pid") else ""
    boot = _text("/proc/sys/kernel/random/boot_id").strip()
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": _started(os.getpid()), "boot": boot, "pid_namespace": namespace}


def _text(path: str) -> str:
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def _started(pid: Any) -> str:
    """When a process started, in ticks since the boot: field 22 of proc(5); empty if it has ended."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _replace(path: pathlib.Path, contents: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_bytes(contents)
    unfinished.replace(path)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _safetensors(weights: dict[str, Tensor]) -> bytes:
    """The format of the package safetensors: the length of a header of JSON, the header, and the tensors' bytes."""
    header: dict[str, Any] = {}
    contents = []
    begin = 0
    for name, weight in weights.items():
        data = weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes() if weight.numel() else b""
        header[name] = {"dtype": _DTYPES[weight.dtype], "shape": list(weight.shape), "data_offsets": [begin, begin + len(data)]}
        contents.append(data)
        begin += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *contents])


_DTYPES = {
    **{torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"},
    **{torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"},
}


