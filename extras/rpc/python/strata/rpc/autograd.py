# SPDX-License-Identifier: Apache-2.0
"""Gradients that cross ranks: a forward pass that calls other ranks, and its backward pass.

with autograd.context() as context_id:
    y = rref.rpc_sync().forward(x)
    autograd.backward(context_id, [y.sum()])
    optimizer.step(context_id)                     # or autograd.get_gradients(context_id)
"""

from __future__ import annotations

import types
from collections.abc import Sequence

import torch

from strata.rpc import _session
from strata.rpc._extension import _rpc

__all__ = ["backward", "context", "get_gradients"]

_NUMBER_BITS = 48


class context:
    """A forward pass and its backward passes, on all ranks that its calls reach.

    Calls of the thread that entered it belong to it, and so do the calls that those make elsewhere. Gives a number that names
    it on any rank.
    """

    def __enter__(self) -> int:
        self._context = _rpc.Context(_session.current().core)
        creator, number = self._context.id
        return creator << _NUMBER_BITS | number

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._context.close()


def backward(context_id: int, roots: Sequence[torch.Tensor], retain_graph: bool = False) -> None:
    """Runs from the roots, losses of one element each, through all ranks that had a part in them, and waits for the end.

    The roots are this rank's; the context may have begun on any rank. Gradients gather in the context, not in .grad; several passes add up. The graph stays until the context ends, whatever
    retain_graph says.

    Raises:
        InputError if a root has more elements or needs no gradient, or the context has ended or was never begun.
        RemoteError and CommError as calls do, and what a function of this process raises; the gradients are then incomplete.
    """
    _rpc.backward(_session.current().core, _key(context_id), list(roots))


def get_gradients(context_id: int) -> dict[torch.Tensor, torch.Tensor]:
    """The gradients of this rank's parameters, by parameter, in a context that began on any rank; empty if it has had no part.

    Raises:
        InputError if the context has ended or was never begun.
    """
    return dict(_rpc.gradients(_session.current().core, _key(context_id)))


def _key(context_id: int) -> tuple[int, int]:
    """The rank that began a context, and its number there."""
    return context_id >> _NUMBER_BITS, context_id & ((1 << _NUMBER_BITS) - 1)
