# SPDX-License-Identifier: Apache-2.0
"""An optimizer of parameters that lie on several ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from strata.errors import InputError
from strata.rpc import _session
from strata.rpc._calls import remote, wait_all
from strata.rpc._extension import _rpc
from strata.rpc._references import RRef
from strata.rpc.autograd import get_gradients

__all__ = ["DistributedOptimizer"]


class _OwnedParameters:
    """An optimizer of torch's over the parameters of one rank."""

    def __init__(
        self, optimizer_class: type[torch.optim.Optimizer], parameters: list[RRef[Any]], args: Any, kwargs: Any
    ) -> None:
        self._parameters = [each.local_value() for each in parameters]
        self._optimizer = optimizer_class(self._parameters, *args, **kwargs)

    def check(self) -> None:
        """Does nothing; its call raises what making this object raised."""

    def step(self, context_id: int) -> None:
        gradients = get_gradients(context_id)
        # Other ranks may have optimizers over the same parameters.
        lock = _rpc.ParameterLock(_session.current().core, self._parameters)
        try:
            before = [each.grad for each in self._parameters]
            try:
                for each in self._parameters:
                    each.grad = gradients.get(each)
                self._optimizer.step()
            finally:
                for each, grad in zip(self._parameters, before):
                    each.grad = grad
        finally:
            lock.release()


class DistributedOptimizer:
    """An optimizer of torch.optim on each owner of some parameters, over its own.

        optimizer = rpc.DistributedOptimizer(torch.optim.SGD, module.parameter_rrefs(), lr=0.05)
        with autograd.context() as context_id:
            autograd.backward(context_id, [loss])
            optimizer.step(context_id)

    Args:
        optimizer_class: torch.optim.SGD and its like.
        params_rref: references to parameters, on any ranks.
        args, kwargs: further arguments of the class.
    """

    def __init__(
        self, optimizer_class: type[torch.optim.Optimizer], params_rref: Iterable[RRef[Any]], *args: Any, **kwargs: Any
    ) -> None:
        by_owner: dict[str, list[RRef[Any]]] = {}
        for each in params_rref:
            by_owner.setdefault(each.owner_name(), []).append(each)
        if not by_owner:
            raise InputError("DistributedOptimizer() without parameters", "Give RRefs of parameters.")
        self._parts = [
            remote(owner, _OwnedParameters, (optimizer_class, mine, args, kwargs)) for owner, mine in by_owner.items()
        ]
        wait_all([part.rpc_async().check() for part in self._parts])

    def step(self, context_id: int) -> None:
        """Takes a step on all owners at once, with the gradients of the context; the parameters' own .grad stay as they are.

        Optimizers of several ranks over the same parameters take turns.

        Raises:
            InputError if the context has ended or was never begun.
        """
        wait_all([part.rpc_async().step(context_id) for part in self._parts])
