# SPDX-License-Identifier: Apache-2.0
"""Work of C++ on threads of its own: what waits for it, draws its bars, and stops it at Ctrl-C."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from strata.errors import StrataError


class Job(Protocol):
    def wait(self, milliseconds: int) -> bool: ...
    def stop(self, signal: int) -> None: ...
    def must_be_waited_for(self) -> bool: ...
    def take(self) -> Any: ...


_left: list[Job] = []  # stopped, and still at work on what cannot be interrupted


def shows_bars() -> bool:
    """Whether bars are visible: on a terminal, or in a notebook."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


class Bars:
    """The bars of an extension's work, drawn by tqdm; while it lives, the extension itself draws none."""

    def __init__(self, module: Any, shown: bool | None = None) -> None:
        self._watch = module.BarWatch()
        self._shown = shows_bars() if shown is None else shown
        self._drawn: dict[int, Any] = {}

    def draw(self) -> None:
        if not self._shown:
            return
        bars = {number: rest for number, *rest in self._watch.bars()}
        for number in [number for number in self._drawn if number not in bars]:
            self._drawn.pop(number).close()
        for number, (title, unit, done, total) in bars.items():
            if number not in self._drawn:
                from tqdm.auto import tqdm

                self._drawn[number] = tqdm(total=total, desc=title, unit=f" {unit}", unit_scale=True, leave=False)
            bar = self._drawn[number]
            bar.update(done - bar.n)

    def close(self) -> None:
        for bar in self._drawn.values():
            bar.close()
        self._drawn.clear()
        self._watch = None


def finish(job: Job, bars: Bars | None = None, left: Callable[[Any], str] = lambda _: "") -> Any:
    """Waits for a job and returns its result. Ctrl-C stops it and waits until what must be saved is.

    `left` says what a job that was stopped so has left behind.
    """
    try:
        while not job.wait(100):
            if bars is not None:
                bars.draw()
    except KeyboardInterrupt:
        _stop(job)
        if job.wait(0) and (words := _left_by(job, left)):
            raise KeyboardInterrupt(words) from None
        raise
    except BaseException:
        _stop(job)
        raise
    finally:
        if bars is not None:
            bars.close()
    return job.take()


def _left_by(job: Job, left: Callable[[Any], str]) -> str:
    try:
        return left(job.take())
    except StrataError:
        return ""  # it had begun nothing


def _stop(job: Job) -> None:
    _left.append(job)
    job.stop(signal.SIGINT)
    patience = time.monotonic() + 0.5
    while not job.wait(50):
        if time.monotonic() > patience and not job.must_be_waited_for():
            return
    _left.remove(job)


@atexit.register
def _end_left() -> None:
    """Threads that are still at work must not meet a process that is half gone."""
    if all(job.wait(2000) for job in _left):
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(128 + signal.SIGINT)
