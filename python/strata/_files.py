# SPDX-License-Identifier: Apache-2.0
"""Tables in files, written piece by piece and read in place: .npy and .safetensors."""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy
import torch
from torch import Tensor

from strata._process import together
from strata.errors import InputError, IoError

_DTYPES = {"F32": torch.float32, "I64": torch.int64}


class Rows(NamedTuple):
    """A table whose pieces come one after the other."""

    shape: tuple[int, ...]
    pieces: Iterator[Tensor]
    dtype: str = "F32"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * _DTYPES[self.dtype].itemsize


def written(path: pathlib.Path, kind: str, tensors: Mapping[str, Rows], writes: bool) -> None:
    """Writes beside the file's name and renames then. Collective: all ranks make the pieces, and the one that `writes` has them."""
    beside = path.with_name(path.name + ".part")
    failed: list[OSError] = []
    file: BinaryIO | None = None

    def attempt(work: Any) -> Any:
        try:
            return None if failed or not writes else work()
        except OSError as error:
            failed.append(error)

    file = attempt(lambda: beside.open("wb"))
    attempt(lambda: file.write(_header(kind, tensors)) if file else None)
    for rows in tensors.values():
        for piece in rows.pieces:
            attempt(lambda: file.write(piece.contiguous().numpy().data) if file and piece.numel() else None)
    attempt(lambda: _finish(file, beside, path) if file else None)
    if file is not None and failed:
        file.close()
        beside.unlink(missing_ok=True)

    def tell() -> None:
        if failed:
            raise IoError(f"{path} cannot be written: {failed[0]}", "Choose a folder that can be written and has room.")

    together(tell)


def _finish(file: BinaryIO, beside: pathlib.Path, path: pathlib.Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()
    beside.rename(path)


def _header(kind: str, tensors: Mapping[str, Rows]) -> bytes:
    if kind == ".npy":
        (rows,) = tensors.values()
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {rows.shape!r}, }}".encode()
        text += b" " * (-(len(text) + 11) % 64) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    header: dict[str, Any] = {}
    begin = 0
    for name, rows in tensors.items():
        header[name] = {"dtype": rows.dtype, "shape": list(rows.shape), "data_offsets": [begin, begin + rows.nbytes]}
        begin += rows.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def read_rows(path: pathlib.Path, kind: str) -> dict[str, Tensor]:
    """The tables of a file, which is mapped; "weight" of a .npy. InputError for a file that is damaged or of other types."""
    try:
        if kind == ".npy":
            return {"weight": _of_npy(path)}
        return _of_safetensors(path)
    except OSError as error:
        raise IoError(f"{path} cannot be read: {error}", "Give a file that save() wrote.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no rows: {error}", "Give a file that save() wrote.") from None


def _of_npy(path: pathlib.Path) -> Tensor:
    array = numpy.load(path, mmap_mode="c")
    if array.dtype != numpy.float32 or array.ndim != 2:
        raise ValueError(f"it is {array.dtype} of shape {array.shape}, not float32 [rows, columns]")
    return torch.from_numpy(numpy.ascontiguousarray(array) if not array.flags.c_contiguous else array)


def _of_safetensors(path: pathlib.Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise ValueError("its header is longer than the file")
        header = json.loads(file.read(length))
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"{name} is {entry['dtype']}")
        dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if end - begin != math.prod(shape) * dtype.itemsize or 8 + length + end > path.stat().st_size:
            raise ValueError(f"{name} does not fit the file")
        numbers = numpy.dtype("<f4" if dtype == torch.float32 else "<i8")
        if end == begin:
            tensors[name] = torch.empty(shape, dtype=dtype)
        else:
            tensors[name] = torch.from_numpy(numpy.memmap(path, numbers, "c", 8 + length + begin, shape))
    return tensors
