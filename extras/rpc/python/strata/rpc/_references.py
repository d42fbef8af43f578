# SPDX-License-Identifier: Apache-2.0
"""References to objects of other ranks."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import torch

from strata.errors import InputError
from strata.rpc import _session, autograd

if TYPE_CHECKING:
    from strata import _rpc

T = TypeVar("T")

_NO_CONTEXT = -1

_living: weakref.WeakSet[RRef[Any]] = weakref.WeakSet()


class RRef(Generic[T]):
    """A reference to an object that lies on some rank, its owner. It may be passed to other ranks in calls.

    The object is kept while a reference to it is anywhere, and until shutdown().

        rref = rpc.RRef(model)                        # of an object of this rank
        rref = rpc.remote("worker1", Model, args=(3,))
        y = rref.rpc_sync().forward(x)                # calls a method on the owner
    """

    _handle: _rpc.Handle

    def __init__(self, value: T, type_hint: Any = None) -> None:
        """Refers to a value of this rank. type_hint is torch's, for TorchScript, and has no effect."""
        self._set(_session.current().core.share(value))

    @classmethod
    def _of(cls, handle: _rpc.Handle) -> RRef[T]:
        rref: RRef[T] = cls.__new__(cls)
        rref._set(handle)
        return rref

    def _set(self, handle: _rpc.Handle) -> None:
        self._handle = handle
        _living.add(self)

    def is_owner(self) -> bool:
        """Whether the object lies on this rank."""
        return self._handle.owner == _session.current().core.rank

    def owner(self) -> _session.WorkerInfo:
        """The rank that the object lies on."""
        return _session.worker_of_rank(self._handle.owner)

    def owner_name(self) -> str:
        """The name of that rank."""
        return self.owner().name

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows of this rank's references to the object."""
        return self._handle.is_confirmed

    def local_value(self) -> T:
        """The object itself, on its owner. Waits until it is made; raises what making it raised."""
        return cast(T, self._handle.local())

    def to_here(self, timeout: float = _session.DEFAULT_TIMEOUT) -> T:
        """A copy of the object; on its owner the object itself. Waits as local_value() does."""
        from strata.rpc._calls import taken

        if self.is_owner():
            return self.local_value()
        return cast(T, taken(self._handle.fetch(_session.milliseconds(timeout))))

    def rpc_sync(self, timeout: float = _session.DEFAULT_TIMEOUT) -> Any:
        """Calls a method on the owner and waits for what it returns: rref.rpc_sync().forward(x)."""
        from strata.rpc import _calls

        return _Methods(self, _calls.rpc_sync, timeout)

    def rpc_async(self, timeout: float = _session.DEFAULT_TIMEOUT) -> Any:
        """Calls a method on the owner; gives a Future."""
        from strata.rpc import _calls

        return _Methods(self, _calls.rpc_async, timeout)

    def remote(self, timeout: float = _session.DEFAULT_TIMEOUT) -> Any:
        """Calls a method on the owner, where what it returns stays; gives an RRef."""
        from strata.rpc import _calls

        return _Methods(self, _calls.remote, timeout)

    def backward(self, dist_autograd_ctx_id: int = _NO_CONTEXT, retain_graph: bool = False) -> None:
        """Runs backward from the object, a tensor of one element, on its owner, and waits for the end.

        With a context it is the owner's autograd.backward(): gradients gather in the context. Without one it is the owner's
        torch.Tensor.backward(), which only the owner may call: gradients gather in .grad.

        Raises:
            InputError if the object is no such tensor, or if another rank than the owner calls it without a context.
            What autograd.backward() raises; as a RemoteError if the owner is another rank.
        """
        from strata.rpc import _calls

        if self.is_owner():
            _backward(self, dist_autograd_ctx_id, retain_graph)
        elif dist_autograd_ctx_id == _NO_CONTEXT:
            raise InputError(
                f"RRef.backward() without a context, of an object that {self.owner_name()} owns",
                "Call it within `with autograd.context() as context_id:`, with context_id.",
            )
        else:
            _calls.rpc_sync(self.owner(), _backward, (self, dist_autograd_ctx_id, retain_graph))

    def __repr__(self) -> str:
        return f"strata.rpc.RRef(owner={self.owner_name()!r})"


class _Methods:
    """Methods of an object by their names, called in one of three ways."""

    def __init__(self, rref: RRef[Any], call: Any, timeout: float) -> None:
        self._rref = rref
        self._call = call
        self._timeout = timeout

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(self._rref.owner(), call_method, (self._rref, name, args, kwargs), timeout=self._timeout)

        return call


def call_method(rref: RRef[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from strata.rpc.functions import answer_of

    method = getattr(rref.local_value(), name)
    return answer_of(method, method(*args, **kwargs))


def _backward(rref: RRef[Any], context_id: int, retain_graph: bool) -> None:
    """Runs backward on the owner."""
    root = rref.local_value()
    if not isinstance(root, torch.Tensor) or root.numel() != 1:
        what = f"a tensor of {root.numel()} elements" if isinstance(root, torch.Tensor) else f"a {type(root).__name__}"
        raise InputError(f"RRef.backward() of {what}", "Refer to the loss: a tensor of one element.")
    if context_id == _NO_CONTEXT:
        torch.autograd.backward(root, retain_graph=retain_graph)
    else:
        autograd.backward(context_id, [root], retain_graph)


def drop_all() -> None:
    """Drops the handles of all references of this process; those are used no more."""
    for rref in list(_living):
        rref._handle.drop()
