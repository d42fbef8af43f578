# SPDX-License-Identifier: Apache-2.0
"""Graphs in memory as files, which strata-partition and strata-train read while a call works on them."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strata import _core
from strata._arrays import host_array
from strata._jobs import Bars, finish
from strata._process import process, together
from strata._typed_parts import STORED, TypedGraph, arrays_to_store
from strata.errors import InputError
from strata.graph import Graph, load, require_graph
from strata.objects import Described, describe, typed_graph, write

_SHARED = pathlib.Path("/dev/shm")
_PIECE = 32 << 20  # bytes that are sent to other hosts at a time
_LEAST_FREE = 2 << 30  # bytes that stay free in shared memory; else the disk is used


@dataclass(frozen=True)
class _Given:
    """What a caller gave as a graph.

    Attributes:
        name: of a graph in files, for strata-train; None: it is in memory, or nothing was given.
        key: the same for the same graph in memory.
        words: what it is, for records and messages.
        num_bytes: of its arrays.
        write: makes a copy in a folder and returns its name for strata-partition, or arrays that it takes as they are; None: there is
            nothing to copy.
    """

    name: str | None = None
    key: str = ""
    words: str = ""
    num_bytes: int = 0
    write: Callable[[pathlib.Path], str | _core.TypedArrays] | None = None


# ---- Folders ----


def _room() -> int:
    """Bytes that shared memory has free: of its own limit, and of what this process may take."""
    return min(shutil.disk_usage(_SHARED).free, _core.available_host_bytes()) if os.access(_SHARED, os.W_OK) else 0


def _remove_left(root: pathlib.Path) -> None:
    """Removes folders of processes that were killed: nobody locks them."""
    for folder in root.glob(f"strata-{os.getuid()}-*"):
        with contextlib.suppress(OSError), open(folder / "lock", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def scratch_folder(num_bytes: int = 0, root: pathlib.Path | None = None) -> Iterator[pathlib.Path]:
    """A folder for so many bytes until the end of the block: in `root`, by default in shared memory, or on disk if that is small."""
    if root is None:
        root = _SHARED if _room() > num_bytes + _LEAST_FREE else pathlib.Path(tempfile.gettempdir())
    _remove_left(root)
    made = pathlib.Path(tempfile.mkdtemp(prefix="strata-new-", dir=root))
    with _locked(made, root / f"strata-{os.getuid()}-{made.name[-8:]}") as folder:
        yield folder


@contextlib.contextmanager
def _locked(made: pathlib.Path, folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a folder its name when it is locked, and removes it at the end."""
    try:
        with open(made / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made.rename(folder)
            yield folder
    finally:
        for path in (made, folder):
            shutil.rmtree(path, ignore_errors=True)


# ---- What was given ----


def _look_at(graph: Any, needs_parts: bool) -> _Given:
    """Refuses what is no graph. `needs_parts`: other names of graphs in files than those of strata-train are graphs to copy."""
    if graph is None:
        return _Given()
    if isinstance(graph, (str, os.PathLike)):
        return _of_name(os.fspath(graph), needs_parts)
    if needs_parts and (typed := typed_graph(graph)) is not None:
        return _of_types(typed, f"graph {graph._number}" if isinstance(graph, Graph) else "")
    if isinstance(graph, Graph):
        require_graph(graph, several_types=True)
        again = graph._again
        if again is None or again.func is not load:
            return _Given(
                key=f"graph {graph._number}",
                words=f"a graph of {graph.num_nodes} nodes and {graph.num_edges} edges",
                num_bytes=graph.num_nodes * (graph.num_features * 4 + 32) + graph.num_edges * 24,
                write=lambda folder: _write(describe(graph._arguments()), folder),
            )
        return _of_name(os.fspath(again.args[0]), needs_parts)
    described = describe(graph)
    arrays = {name: value for name, value in described.arrays.items() if name != "num_nodes"}
    shapes = ", ".join(f"{name}={list(value.shape)}" for name, value in arrays.items())
    return _Given(
        key=_digest(arrays, str(described.arrays.get("num_nodes"))) if process().size > 1 else "",
        words=f"{type(graph).__name__}({shapes})",
        num_bytes=sum(value.nbytes for value in arrays.values()),
        write=functools.partial(_write, described),
    )


def _of_types(graph: TypedGraph, key: str) -> _Given:
    nodes, edges, edge_index = graph
    arrays = {f"edge_index of {kind}": host_array(ends, "edge_index") for kind, ends in edge_index.items()}
    for kind, one in [*nodes.items(), *edges.items()]:
        arrays |= {f"{name} of {kind}": host_array(values, name) for name, values in one.attributes.items() if name in STORED}
    sizes = {kind: one.size for kind, one in nodes.items()}
    return _Given(
        key=key or (_digest(arrays, str(sizes)) if process().size > 1 else ""),
        words=f"a graph of {len(nodes)} types and {len(edges)} relations",
        num_bytes=sum(array.nbytes for array in arrays.values()),
        write=lambda _: arrays_to_store(graph),
    )


def _of_name(source: str, needs_parts: bool) -> _Given:
    """A graph in files. Of a dataset, strata-train needs parts, which are made of its files as they are."""
    if not needs_parts or not _is_dataset(source):
        return _Given(name=source)
    return _Given(key=source, words=source, write=lambda _: source)


def _is_dataset(source: str) -> bool:
    prefix = source.partition(":")[0] if ":" in source else ""
    return prefix not in ("", "synthetic", "planted") and not os.path.isdir(source)


def _write(described: Described, folder: pathlib.Path) -> str:
    described.warn()
    write(described, folder / "graph")
    return f"npy:{folder / 'graph'}"


def _digest(arrays: Mapping[str, Any], facts: str) -> str:
    import numpy

    found = hashlib.blake2b(facts.encode(), digest_size=16)
    for name, value in sorted(arrays.items()):
        found.update(f"{name} {value.dtype} {value.shape} ".encode())
        if value.size:
            found.update(numpy.ascontiguousarray(value).reshape(-1).view("uint8").data)
    return found.hexdigest()


@contextlib.contextmanager
def _without_place(folder: pathlib.Path) -> Iterator[None]:
    """Leaves the place of the copy out of errors: the caller gave arrays, and no files."""
    try:
        yield
    except InputError as error:
        text = str(error).partition("\n")[0]
        for place in (f"{folder}/graph: ", f"{folder}/graph/"):
            text = text.replace(place, "")
        raise InputError(text, error.remedy) from None


# ---- Names for the programs ----


def _in_words(words: str, source: str) -> str:
    return f"memory:{words.replace(';', ',')};{source}"


@contextlib.contextmanager
def as_input(graph: Any) -> Iterator[str]:
    """The name of a graph for strata-partition. Not collective. A graph in memory is copied, until the end of the block."""
    given = _look_at(graph, needs_parts=False)
    if given.name is not None or given.write is None:
        yield given.name or ""
        return
    with scratch_folder(2 * given.num_bytes) as folder, _without_place(folder):
        yield _in_words(given.words, str(given.write(folder)))


class Parts:
    """A graph for strata-train.

    Attributes:
        name: as --graph takes it; None: none was given.
        is_copy: whether these are parts of a copy.
    """

    def __init__(self, name: str | None, mine: pathlib.Path | None = None, is_copy: bool = False) -> None:
        self.name, self.is_copy = name, is_copy
        self._mine = mine  # made by this rank

    def free(self) -> None:
        """Gives back what the files of the copy take, once all ranks have loaded it."""
        if self._mine is not None:
            for part in self._mine.glob("part-*.h5"):
                part.unlink()


@contextlib.contextmanager
def as_parts(graph: Any, ranks_per_machine: int = 0, shows_bars: bool | None = None) -> Iterator[Parts]:
    """Parts of a graph until the end of the block. Collective. `shows_bars`: as Bars takes it.

    Of a graph in memory, the first rank that was given it makes parts in shared memory, as many as there are machines; each
    other host gets one copy of them. Ranks that were given one, too, must have been given the same; others None.
    """
    current = process()
    given = together(lambda: _look_at(graph, needs_parts=True))
    holder = current.least(current.size if given.write is None else current.rank)
    if holder == current.size:
        yield Parts(given.name)
        return
    key = current.broadcast(given.key, holder)
    together(lambda: _require_same(given, key, holder))
    machines = max(current.num_machines, -(-current.size // ranks_per_machine) if ranks_per_machine else 1)
    with contextlib.ExitStack() as stack:
        made: list[pathlib.Path] = []

        def make() -> str:
            assert given.write is not None
            folder = stack.enter_context(scratch_folder(3 * given.num_bytes))
            with _without_place(folder):
                _cut(given.write(folder), folder / "parts", machines, Bars(_core, shows_bars))
            shutil.rmtree(folder / "graph", ignore_errors=True)
            made.append(folder / "parts")
            return _in_words(given.words, str(folder / "parts"))

        name = current.broadcast(together(lambda: make() if current.rank == holder else ""), holder)
        parts = pathlib.Path(name.rpartition(";")[2])
        if _fetch(parts, holder, stack):
            made.append(parts)
        yield Parts(name, made[0] if made else None, is_copy=True)


def _require_same(given: _Given, key: str, holder: int) -> None:
    if given.name is not None:
        raise InputError(f"this rank was given the graph {given.name}, and rank {holder} one in memory", "Give all ranks the same.")
    if given.write is not None and given.key != key:
        raise InputError(
            f"this rank was given another graph in memory than rank {holder}: {given.words}",
            "Give all ranks the same arrays; or give the graph on one rank, and None on the others.",
        )


def _cut(source: str | _core.TypedArrays, output: pathlib.Path, parts: int, bars: Bars) -> None:
    """Keeps repeated edges, as from_tensors() does."""
    options = [("parts", [str(parts)]), ("output", [str(output)])]
    if isinstance(source, str):
        options += [("input", [source]), ("duplicates", ["keep"])]
        job = _core.CommandJob.start("build", [], options, "strata.partition")
    else:
        job = _core.CommandJob.build_of(source, [*options, ("input", ["memory"])], "strata.partition")
    finish(job, bars)


def _piece_of(path: pathlib.Path, start: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(_PIECE)


def _fetch(parts: pathlib.Path, holder: int, stack: contextlib.ExitStack) -> bool:
    """Copies parts to the hosts that do not see those of the holder. Collective. Returns whether this rank wrote them."""
    current = process()
    sees = (parts / "manifest.json").exists()
    if current.least(int(sees)):
        return False

    def begin() -> bool:
        if sees:
            return False
        new = parts.parent.with_name(f"strata-new-{parts.parent.name}")
        try:
            new.mkdir()
        except FileExistsError:
            return False  # another rank of this host writes
        (stack.enter_context(_locked(new, parts.parent)) / "parts").mkdir()
        return True

    writes = together(begin)
    failed: OSError | None = None
    listed = [(path.name, path.stat().st_size) for path in parts.iterdir()] if current.rank == holder else []
    for name, size in json.loads(current.broadcast(json.dumps(listed), holder)):
        for start in range(0, size, _PIECE):
            piece = current.broadcast(_piece_of(parts / name, start) if current.rank == holder else b"", holder)
            try:
                if writes and failed is None:
                    with open(parts / name, "ab") as file:
                        file.write(piece)
            except OSError as error:  # the others go on, and hear of it below
                failed = error

    def check() -> None:
        if failed is not None:
            raise InputError(f"no copy of the parts in {parts}: {failed}", "Free memory or disk space there.")
        if not (parts / "manifest.json").exists():
            raise InputError(f"no parts in {parts}", "Give the graph on a rank of this host, too, or write it by strata.partition().")

    together(check)
    return writes
