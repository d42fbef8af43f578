# SPDX-License-Identifier: Apache-2.0
"""Plotly figures that can be read in black and white: lines differ in dash and symbol, bars in pattern."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from . import words

# Colors of Okabe and Ito, which color-blind people can distinguish, of different lightness.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9"]
DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"]
# Their numbers have no common divisor, so that no two of several hundred lines are drawn alike.
SYMBOLS = ["circle", "square", "diamond", "x", "triangle-up", "cross", "star", "triangle-down", "pentagon", "hexagram", "hourglass"]
PATTERNS = ["", "/", ".", "x", "-", "\\", "+"]
MOST_SYMBOLS = 60  # beyond which a line has a symbol here and there only
FEW_SYMBOLS = 12
LEGEND_COLUMNS = 28  # of a phone

Values = Sequence[float | None]


@dataclasses.dataclass(frozen=True)
class Series:
    name: str
    x: Sequence[Any]
    y: Values


@dataclasses.dataclass(frozen=True)
class Axes:
    x: str
    y: str
    whole_x: bool = False  # ticks only at whole numbers
    from_zero: bool = False


def _layout(figure: go.Figure, axes: Axes, height: int = 380) -> go.Figure:
    figure.update_layout(
        template="plotly_white",
        height=height,
        autosize=True,
        dragmode=False,
        font={"size": 14, "color": "#1a1a1a"},
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        legend={"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        hovermode="x unified",
    )
    figure.update_xaxes(title_text=axes.x, automargin=True, linecolor="#1a1a1a", ticks="outside")
    figure.update_yaxes(title_text=axes.y, automargin=True, linecolor="#1a1a1a", ticks="outside")
    if axes.from_zero:
        figure.update_yaxes(rangemode="tozero")
    return figure


def _whole_ticks(figure: go.Figure, series: Sequence[Series]) -> None:
    """Ticks without half epochs where there are few."""
    values = sorted({x for s in series for x in s.x})
    if len(values) <= 12:
        figure.update_xaxes(tickmode="array", tickvals=values)


def _has_few_points(series: Series) -> bool:
    """Whether a line has few enough points to distinguish them."""
    return len(series.x) <= MOST_SYMBOLS


def _spaced(series: Series) -> dict[str, object]:
    """The number of symbols of a line; 0: one per point."""
    return {"maxdisplayed": 0 if _has_few_points(series) else FEW_SYMBOLS}


def _legend_name(name: str) -> str:
    """A name in lines that a phone can show."""
    return "<br>".join(textwrap.wrap(name, LEGEND_COLUMNS)) or name


def _bar_marker(i: int, outline: int) -> dict[str, object]:
    """The i-th kind of bar, which differs from the others in black and white, too."""
    return {
        "color": COLORS[i % len(COLORS)],
        "pattern": {"shape": PATTERNS[i % len(PATTERNS)], "fgcolor": "#ffffff", "solidity": 0.3},
        "line": {"color": "#1a1a1a", "width": outline},
    }


def _line_marker(i: int) -> dict[str, object]:
    """The marker of the i-th line. Every second one is a frame, in which the symbol of a line that runs at the same place is seen."""
    symbol = SYMBOLS[i % len(SYMBOLS)]
    return {"symbol": f"{symbol}-open", "size": 10, "line": {"width": 1.5}} if i % 2 else {"symbol": symbol, "size": 6}


def lines(series: Sequence[Series], axes: Axes, marked: Series | None = None) -> go.Figure:
    """A line per series; `marked` are single points, such as the best epoch."""
    figure = go.Figure()
    for i, s in enumerate(series):
        figure.add_trace(
            go.Scatter(
                x=list(s.x),
                y=list(s.y),
                name=_legend_name(s.name),
                mode="lines+markers",
                line={"color": COLORS[i % len(COLORS)], "dash": DASHES[i % len(DASHES)], "width": 2},
                marker={**_line_marker(i), **_spaced(s)},
                connectgaps=True,
            )
        )
    if marked is not None:
        figure.add_trace(
            go.Scatter(
                x=list(marked.x),
                y=list(marked.y),
                name=marked.name,
                mode="markers",
                marker={"symbol": "star-open", "size": 17, "color": "#000000", "line": {"width": 2}},
            )
        )
    in_legend = sum(_legend_name(s.name).count("<br>") + 1 for s in series)  # on a phone, where it gets half of the height
    _layout(figure, axes, height=min(max(380, 40 * in_legend), 1000))
    if axes.whole_x:
        _whole_ticks(figure, series)
    return figure


def stacked(series: Sequence[Series], axes: Axes, over: Sequence[Series] = ()) -> go.Figure:
    """Bars that add up, and lines over them for what happens at the same time."""
    figure = go.Figure()
    for i, s in enumerate(series):
        figure.add_trace(
            go.Bar(
                x=list(s.x),
                y=list(s.y),
                name=_legend_name(s.name),
                marker=_bar_marker(i, outline=int(_has_few_points(s))),
            )
        )
    for i, s in enumerate(over):
        figure.add_trace(
            go.Scatter(
                x=list(s.x),
                y=list(s.y),
                name=_legend_name(s.name),
                mode="lines+markers",
                line={"color": "#000000", "dash": DASHES[1 + i], "width": 2},
                marker={"symbol": SYMBOLS[2 + i], "size": 9, "color": "#000000", **_spaced(s)},
            )
        )
    figure.update_layout(barmode="stack", bargap=0.25 if series and _has_few_points(series[0]) else 0)
    _layout(figure, axes)
    if axes.whole_x:
        _whole_ticks(figure, series)
    return figure


def horizontal(series: Sequence[Series], axes: Axes, mode: str = "stack") -> go.Figure:
    """Bars to the right, one line per name; `x` of a series are the names."""
    figure = go.Figure()
    for i, s in enumerate(series):
        figure.add_trace(
            go.Bar(
                y=list(s.x),
                x=list(s.y),
                name=_legend_name(s.name),
                orientation="h",
                marker=_bar_marker(i, outline=1),
            )
        )
    rows = len(series[0].x) if series else 0
    per_row = 34 if mode == "stack" else 24 * len(series) + 12
    _layout(figure, axes, height=min(150 + per_row * rows, 1600))
    figure.update_layout(barmode=mode, hovermode="y unified")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def dots(series: Sequence[Series], axes: Axes) -> go.Figure:
    """A symbol per value, one line per name, for values of different magnitudes: the axis is logarithmic. `x` of a series are the names."""
    figure = go.Figure()
    names = list(dict.fromkeys(name for s in series for name in s.x))
    for name in names:
        values = [y for s in series for x, y in zip(s.x, s.y) if x == name]
        between = [name] * len(values)
        figure.add_trace(go.Scatter(x=values, y=between, mode="lines", line={"color": "#1a1a1a", "width": 1}, showlegend=False, hoverinfo="skip"))
    for i, s in enumerate(series):
        figure.add_trace(
            go.Scatter(
                x=list(s.y),
                y=list(s.x),
                name=_legend_name(s.name),
                mode="markers+text",
                text=[words.significant(y) for y in s.y if y is not None],
                textposition="bottom right" if i % 2 else "bottom left",
                marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 13, "color": COLORS[i % len(COLORS)]},
            )
        )
    _layout(figure, axes, height=150 + 75 * len(names))
    exponents = [math.log10(y) for s in series for y in s.y if y]
    room = 0.4 * max(1.0, max(exponents) - min(exponents))  # for the numbers
    figure.update_layout(hovermode="y unified")
    figure.update_xaxes(type="log", range=[min(exponents) - room, max(exponents) + room], dtick=1)
    _names_above(figure, names, above=26)
    return figure


def _names_above(figure: go.Figure, names: Sequence[str], above: int) -> None:
    """Names each line of a chart above it, some pixels from its middle: beside it, long names leave no room on a phone."""
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=list(names)[::-1], range=[-0.5, len(names) - 0.5])
    figure.update_yaxes(showticklabels=False, ticks="")
    for name in names:
        place = {"x": 0, "xref": "paper", "xanchor": "left", "y": name, "yshift": above}
        figure.add_annotation(text=name, showarrow=False, font={"size": 13}, **place)


def matrix(values: list[list[float]], names: Sequence[str], texts: list[list[str]], axes: Axes, hover: str, scale: str) -> go.Figure:
    """Values from 0 (white) to 1 (black), with texts where there are few cells. `hover` names a cell by %{x} and %{y}, `scale` the values."""
    few = len(names) <= 15
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=list(names),
            y=list(names),
            text=texts if few else None,
            texttemplate="%{text}" if few else None,
            zmin=0,
            zmax=1,
            colorscale="Greys",
            colorbar={"title": {"text": scale, "side": "right"}, "thickness": 12},
            customdata=texts,
            hovertemplate=f"{hover}: %{{customdata}}<extra></extra>",
        )
    )
    _layout(figure, axes, height=min(max(360, 26 * len(names) + 120), 800))
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(type="category")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


@dataclasses.dataclass(frozen=True)
class Span:
    lane: str
    stage: str
    start: float  # in milliseconds
    length: float
    detail: str = ""


def timeline(spans: Sequence[Span], lanes: Sequence[str]) -> go.Figure:
    """A chart of what each lane did when."""
    figure = go.Figure()
    for i, stage in enumerate(dict.fromkeys(span.stage for span in spans)):
        mine = [span for span in spans if span.stage == stage]
        figure.add_trace(
            go.Bar(
                y=[span.lane for span in mine],
                x=[span.length for span in mine],
                base=[span.start for span in mine],
                name=stage,
                hovertext=[span.detail for span in mine],
                orientation="h",
                width=0.5,
                marker=_bar_marker(i, outline=1),
            )
        )
    _layout(figure, Axes(x="milliseconds", y=""), height=100 + 44 * len(lanes))
    figure.update_layout(barmode="overlay", hovermode="closest", showlegend=False)
    end = max((span.start + span.length for span in spans), default=1.0)
    figure.update_xaxes(range=[-0.01 * end, 1.01 * end])  # of what began before, only the rest
    _names_above(figure, lanes, above=21)
    return figure
