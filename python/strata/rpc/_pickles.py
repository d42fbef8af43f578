# SPDX-License-Identifier: Apache-2.0
"""Python objects as bytes, with tensors and references taken out, so that these travel as what they are."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import torch

from strata.rpc._references import RRef

if TYPE_CHECKING:
    from strata import _rpc

Pickle = tuple[bytes, list[torch.Tensor], list["_rpc.Handle"]]

_TENSOR, _PARAMETER, _REFERENCE = range(3)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[torch.Tensor] = []
        self.handles: list[_rpc.Handle] = []

    def persistent_id(self, value: Any) -> tuple[int, int] | None:
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            return _PARAMETER if isinstance(value, torch.nn.Parameter) else _TENSOR, len(self.tensors) - 1
        if isinstance(value, RRef):
            self.handles.append(value._handle)
            return _REFERENCE, len(self.handles) - 1
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, tensors: list[torch.Tensor], handles: list[_rpc.Handle]) -> None:
        super().__init__(io.BytesIO(pickled))
        self._tensors = tensors
        self._handles = handles

    def persistent_load(self, key: tuple[int, int]) -> Any:
        kind, place = key
        if kind == _REFERENCE:
            return RRef._of(self._handles[place])
        tensor = self._tensors[place]
        if kind == _PARAMETER and not isinstance(tensor, torch.nn.Parameter):
            # torch.nn.Parameter() would make another tensor, to which gradients of this one do not go.
            tensor.__class__ = torch.nn.Parameter
        return tensor


def dump(value: Any) -> Pickle:
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.tensors, pickler.handles


def load(pickled: bytes, tensors: list[torch.Tensor], handles: list[_rpc.Handle]) -> Any:
    return _Unpickler(pickled, tensors, handles).load()
