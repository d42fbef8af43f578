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

_PLAIN = (torch.Tensor, torch.nn.Parameter)  # without state of their own


def _travels_as_itself(value: torch.Tensor) -> bool:
    """Whether a tensor travels as itself: not if it is made of other tensors, which its own pickle names."""
    return type(value).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[torch.Tensor] = []
        self.handles: list[_rpc.Handle] = []

    def persistent_id(self, value: Any) -> tuple[type, int, dict[str, Any]] | None:
        if isinstance(value, torch.Tensor) and _travels_as_itself(value):
            self.tensors.append(value)
            kind = type(value)
            return kind, len(self.tensors) - 1, {} if kind in _PLAIN else vars(value)
        if isinstance(value, RRef):
            self.handles.append(value._handle)
            return RRef, len(self.handles) - 1, {}
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, tensors: list[torch.Tensor], handles: list[_rpc.Handle]) -> None:
        super().__init__(io.BytesIO(pickled))
        self._tensors = tensors
        self._handles = handles

    def persistent_load(self, key: tuple[type, int, dict[str, Any]]) -> Any:
        kind, place, state = key
        if kind is RRef:
            return RRef._of(self._handles[place])
        tensor = self._tensors[place]
        if issubclass(kind, torch.nn.Parameter) and not tensor.is_leaf:
            follows: Any = tensor.grad_fn
            tensor = follows.next_functions[0][0].variable  # the leaf, because optimizers take no other
        if type(tensor) is not kind:
            # Another tensor of this kind would be one to which gradients of this one do not go.
            tensor.__class__ = kind
            vars(tensor).update(state)
        return tensor


def dump(value: Any) -> Pickle:
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.tensors, pickler.handles


def load(pickled: bytes, tensors: list[torch.Tensor], handles: list[_rpc.Handle]) -> Any:
    return _Unpickler(pickled, tensors, handles).load()
