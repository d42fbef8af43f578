# SPDX-License-Identifier: Apache-2.0
"""Pages about runs of strata-train, and about partitions, from the files that they write; strata-report, strata-watch and strata.report() call it.

Nothing here needs the extension of the package strata, nor MPI.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .run import ReportError, Run, names_parts, read_run

if TYPE_CHECKING:
    from .page import Page, Section

__all__ = ["ReportError", "draw", "draw_parts", "read_run", "report"]


def draw(*runs: Run) -> Page:
    """A page about one run, or about several side by side. Raises ReportError."""
    try:
        from . import compare, page, record
    except ImportError as error:
        raise _missing(error) from error
    if not runs:
        raise ReportError("no run was named", "Name the folders of runs, such as runs/last.")
    if len(runs) > 1:
        names = compare.names_of(runs)
        return page.render(compare.headline(runs, names), compare.sections(runs, names))
    return page.render(record.headline(runs[0]), sections_of(runs[0]))


def draw_parts(path: str | os.PathLike[str]) -> Page:
    """A page about a partition from the file of its facts. Raises ReportError."""
    try:
        from . import parts
    except ImportError as error:
        raise _missing(error) from error
    return parts.draw(parts.read(path))


def _missing(error: ImportError) -> ReportError:
    return ReportError(f"reports need the Python package {error.name}", "pip install jinja2 plotly")


def sections_of(run: Run) -> list[Section]:
    """The sections of a page about one run."""
    from . import learning, memory, overlap, record, work

    about_learning = [learning.loss, learning.scores, learning.classes]
    about_work = [work.stages, overlap.overlap, work.strata, work.plan, work.exchange, memory.memory, work.ranks]
    return [make(run) for make in (*about_learning, *about_work, record.configuration, record.warnings)]


def report(*runs: str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> Page:
    """The implementation of strata.report(), which has the documentation."""
    page = draw_parts(runs[0]) if len(runs) == 1 and names_parts(runs[0]) else draw(*(read_run(folder) for folder in runs))
    if output is not None:
        page.write(output)
    return page
