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
    """The bars of an extension's work, drawn by tqdm; while it lives, the extension itself draws none.

    A bar that follows another one of the same unit, as epochs do, goes on in its line, or in its widget of a notebook.
    """

    def __init__(self, module: Any, shown: bool | None = None) -> None:
        self._watch = module.BarWatch()
        self._shown = shows_bars() if shown is None else shown
        self._drawn: dict[int, Any] = {}
        self._over: dict[str, Any] = {}  # bars whose work is over, by unit

    def draw(self) -> None:
        if not self._shown:
            return
        bars = {number: rest for number, *rest in self._watch.bars()}
        for number in [number for number in self._drawn if number not in bars]:
            bar = self._drawn.pop(number)
            if (other := self._over.get(bar.unit)) is not None:
                other.close()
            self._over[bar.unit] = bar
        for number, (title, unit, done, total, words) in bars.items():
            if number not in self._drawn:
                self._drawn[number] = self._begin(title, f" {unit}", total)
            bar = self._drawn[number]
            bar.set_postfix_str(words, refresh=False)
            bar.update(done - bar.n)

    def _begin(self, title: str, unit: str, total: int) -> Any:
        from tqdm.auto import tqdm

        bar = self._over.pop(unit, None)
        if bar is None:
            return tqdm(total=total, desc=title, unit=unit, unit_scale=True, leave=False)
        bar.reset(total)
        bar.set_description(title)
        return bar

    def close(self) -> None:
        for bar in (*self._drawn.values(), *self._over.values()):
            bar.close()
        self._drawn.clear()
        self._over.clear()
        self._watch = None


def finish(
    job: Job, bars: Bars | None = None, left: Callable[[Any], str] = lambda _: "", meanwhile: Callable[[], None] = lambda: None
) -> Any:
    """Waits for a job and returns its result. Ctrl-C stops it and waits until what must be saved is.

    `left` says what a job that was stopped so has left behind. `meanwhile` is called again and again while the job works.
    """
    try:
        while not job.wait(100):
            meanwhile()
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
