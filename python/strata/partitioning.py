# SPDX-License-Identifier: Apache-2.0
"""The commands of strata-partition as functions, with its options by the same names."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import Any

from strata import _core, reports
from strata._arguments import place
from strata._jobs import Bars, finish
from strata._memory import as_input
from strata._typed_parts import TypedGraph, arrays_to_store
from strata.objects import typed_graph

Place = str | os.PathLike[str]


def partition(input: Any, *, parts: int, output: Place, progress: bool | None = None, **options: Any) -> dict[str, Any]:
    """Cuts a graph into parts: `strata-partition build`. Not collective: call it on one rank.

        report = strata.partition("ogb:datasets/products", parts=4, output="parts")
        print(report["cut_edges"], report["bytes"]["total"])
        graph = strata.load(report["path"])

    Args:
        input: the graph, as strata-partition's --input takes it: "npy:DIR", "ogb:DIR", "synthetic:products" ... Or one in memory,
            as save() takes it, or a Graph; original ids are then its numbers. Also a HeteroData or a heterograph: parts hold x, y,
            edge_weight and masks of its types.
        parts: the number of parts.
        output: directory to make. It appears as a whole at the end, or not at all.
        progress: whether bars are shown; by default on a terminal and in notebooks.
        options: what `strata-partition build --help` lists, with _ for -: method="metis", balance=["nodes", "train"],
            features=["bf16", "x.npy"], split={"train": "train.npy"}, memory="16GiB", force=True ...

    Returns:
        What `strata-partition info --json` shows (num_nodes, num_edges, cut_edges, replication_factor, constraints with
        their balance, parts, bytes ...), and `path`, `listed` (what was cleaned) and `phases` (seconds, peak memory).

    Raises:
        InputError, IoError, OutOfMemory. Ctrl-C ends it within a second and leaves nothing behind; memory that METIS is at
        work on is given back when METIS ends.
    """
    if (typed := typed_graph(input)) is not None:
        words = f"memory:a graph of {len(typed[0])} types and {len(typed[1])} relations"
        return _run("build", "partition", [], {"input": words, "parts": parts, "output": output} | options, progress, typed)
    with as_input(input) as name:
        return _run("build", "partition", [], {"input": name, "parts": parts, "output": output} | options, progress)


def repartition(directory: Place, *, parts: int, output: Place, progress: bool | None = None, **options: Any) -> dict[str, Any]:
    """Cuts the graph of parts into another number of them; method="merge" and "split" keep the borders that there are.

    See partition(), which has the same options, except those of the input.
    """
    return _run("repartition", "repartition", [directory], {"parts": parts, "output": output} | options, progress)


def info(source: Place, *, progress: bool | None = None, **options: Any) -> dict[str, Any]:
    """Sizes, edge cut and balance of parts; or degrees, components, labels and memory of a graph that is not cut."""
    return _run("info", "info", [source], options, progress)


def convert(source: Place, target: Place, *, progress: bool | None = None, **options: Any) -> dict[str, Any]:
    """Writes any graph, also one of parts, as a folder of NumPy arrays: target "npy:DIR", which must not exist."""
    return _run("convert", "convert", [source, target], options, progress)


def verify(directory: Place, *, progress: bool | None = None, **options: Any) -> dict[str, Any]:
    """Checks every byte and invariant of parts. `problems` lists what is wrong, and is empty if all is well."""
    return _run("verify", "verify", [directory], options, progress)


def _run(
    command: str,
    function: str,
    places: list[Place],
    options: Mapping[str, Any],
    progress: bool | None,
    typed: TypedGraph | None = None,
) -> dict[str, Any]:
    sources = [place(source, "the graph", ', "npy:FOLDER"') for source in places]
    given = [(name, _texts(value)) for name, value in options.items() if value is not None]
    bars = Bars(_core, progress)  # first: the job's own would be drawn by C++
    if typed is None:
        job = _core.CommandJob.start(command, sources, given, f"strata.{function}")
    else:
        job = _core.CommandJob.build_of(arrays_to_store(typed), given, f"strata.{function}")
    text, _ = finish(job, bars)
    report: dict[str, Any] = json.loads(text)
    if page := options.get("report"):
        _draw(page)
    return report


def _draw(page: Place) -> None:
    """Draws the facts that the command wrote. Warns where that fails: the parts are whole all the same."""
    try:
        reports.report(f"{os.fspath(page)}.json", output=page)
    except reports.ReportError as error:
        warnings.warn(f"there is no page, but the parts are whole. {error}", stacklevel=4)


def _texts(value: Any) -> list[str]:
    """The value as the words of a command line, one for each of a list."""
    if isinstance(value, Mapping):
        return [f"{name}={os.fspath(place)}" for name, place in value.items()]
    if isinstance(value, (list, tuple, set)):
        return [text for entry in value for text in _texts(entry)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
