# SPDX-License-Identifier: Apache-2.0
"""A page of sections, each with a sentence, a chart and the table behind it, as one HTML file that needs no network."""

from __future__ import annotations

import dataclasses
import html
import os
import pathlib
import re
from typing import TYPE_CHECKING, Any

from . import words
from .files import write_whole
from .run import ReportError

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a table; `key` sorts it, `mark` draws the eye to it."""

    text: str
    key: float | str | None = None
    mark: bool = False

    @property
    def is_number(self) -> bool:
        return isinstance(self.key, (int, float))


@dataclasses.dataclass(frozen=True)
class Table:
    caption: str
    header: list[str]
    rows: list[list[Cell]]
    is_open: bool = False

    def has_numbers(self, column: int) -> bool:
        """Whether all values of a column are numbers."""
        filled = [row[column] for row in self.rows if row[column].key != ""]
        return bool(filled) and all(cell.is_number for cell in filled)


@dataclasses.dataclass(frozen=True)
class Chart:
    figure: go.Figure
    describes: str  # what a screen reader says instead


@dataclasses.dataclass(frozen=True)
class Section:
    """A section: `seen` is what the numbers show, `advice` what to try if it looks bad; `missing` why there is nothing to show."""

    title: str
    seen: str = ""
    advice: str = ""
    missing: str = ""
    charts: list[Chart] = dataclasses.field(default_factory=list)
    tables: list[Table] = dataclasses.field(default_factory=list)
    text: str = ""  # shown as it is, in a block

    @property
    def id(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@dataclasses.dataclass(frozen=True)
class Headline:
    title: str
    subtitle: str
    facts: list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Page:
    """A finished page. In a notebook it shows itself."""

    html: str

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes it as a whole, or not at all. Raises ReportError."""
        write_whole(path, self.html)

    def __repr__(self) -> str:
        return f"strata.reports.Page({words.size(len(self.html))} of HTML; write(FILE) writes it)"

    def _repr_html_(self) -> str:
        return f'<iframe style="width:100%;height:80vh;border:0" srcdoc="{html.escape(self.html)}"></iframe>'


# On a phone, a finger on a chart scrolls the page.
PLOTLY_OPTIONS: dict[str, Any] = {"responsive": True, "displayModeBar": False}


def draw(chart: Chart, number: int) -> str:
    """The HTML of a chart, without the library."""
    text = chart.figure.to_html(include_plotlyjs=False, full_html=False, div_id=f"chart-{number}", config=PLOTLY_OPTIONS)
    return str(text)


def keep_options_whole(text: str) -> str:
    """The HTML of a text in which no line ends within the name of an option."""
    return re.sub(r"--[a-z][a-z0-9-]*", r'<span class="option">\g<0></span>', html.escape(text))


def render(headline: Headline, sections: list[Section]) -> Page:
    """Raises ReportError if a package is missing."""
    try:
        import jinja2
        import plotly.offline
        from markupsafe import Markup
    except ImportError as error:
        raise ReportError(f"reports need the Python package {error.name}", "pip install jinja2 plotly") from error
    folder = pathlib.Path(__file__).parent / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["whole_options"] = lambda text: Markup(keep_options_whole(text))
    drawn, number = {}, 0
    for section in sections:
        drawn[section.id] = [(chart, draw(chart, number + i)) for i, chart in enumerate(section.charts)]
        number += len(section.charts)
    text = environment.get_template("report.html").render(
        headline=headline,
        sections=sections,
        drawn=drawn,
        style=(folder / "style.css").read_text(),
        script=(folder / "sort.js").read_text(),
        plotly=plotly.offline.get_plotlyjs() if number else "",
    )
    return Page(text.encode("utf-8", "backslashreplace").decode())  # names of folders may be any bytes
