# SPDX-License-Identifier: Apache-2.0
"""Modules that lie on other ranks."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch

from strata.errors import InputError
from strata.rpc import _session
from strata.rpc._calls import Future, remote, rpc_async, rpc_sync
from strata.rpc._extension import _rpc
from strata.rpc._references import RRef

__all__ = ["RemoteModule"]


class RemoteModule(torch.nn.Module):
    """A module that lies on another rank, and is called as if it were here.

        head = rpc.RemoteModule("worker1/cuda:1", torch.nn.Linear, args=(256, 47))
        y = head(x)
        optimizer = rpc.DistributedOptimizer(torch.optim.Adam, head.remote_parameters())

    CPU tensors among the arguments, and in their lists, tuples, dicts and dataclasses, are moved to the module's device. What it returns comes to the GPU that this rank's device
    map has for that device, or to the CPU if the map has none, and so do the tensors of state_dict(). Its parameters are not
    here: remote_parameters() refers to them, and parameters(), to() and their like are refused with an InputError, rather than
    do nothing.

    Args:
        remote_device: "worker1/cuda:1", "rank:1/cuda:0", "worker1/cpu" or "worker1", which is the CPU.
        module_cls: a class of modules, or a function that makes one; made there with args and kwargs.
    """

    on: str
    device: torch.device
    module_rref: RRef[torch.nn.Module]

    def __init__(
        self,
        remote_device: str,
        module_cls: Callable[..., torch.nn.Module],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._place(remote_device)
        self.module_rref = remote(self.on, _make, (module_cls, tuple(args or ()), dict(kwargs or {}), self.device))
        self.module_rref.rpc_sync().train(self.training)  # raises what making it raised

    def _place(self, remote_device: str) -> None:
        worker, _, device = remote_device.partition("/")
        self.on = worker
        self.device = _device(remote_device, device or "cpu")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the module gives for these arguments. Tensors go to its device; results come where device maps say, else to the CPU."""
        return rpc_sync(self.module_rref.owner(), _forward, self._call(args, kwargs))

    def forward_async(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """A Future of what forward() gives."""
        return rpc_async(self.module_rref.owner(), _forward, self._call(args, kwargs))

    def remote_parameters(self, recurse: bool = True) -> list[RRef[torch.nn.Parameter]]:
        """The parameters for DistributedOptimizer."""
        return rpc_sync(self.module_rref.owner(), _parameters, (self.module_rref, recurse))

    def state_dict(  # type: ignore[override]  # torch's overloads
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Copies of the module's parameters and buffers; keep_vars has no effect."""
        if destination is None:
            destination = OrderedDict()
        state = rpc_sync(self.module_rref.owner(), _state, (self.module_rref, self._comes_to_cpu()))
        destination.update((prefix + name, value) for name, value in state.items())
        return destination

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Serves load_state_dict() of this module and of those that it is part of."""
        state = {name[len(prefix) :]: value for name, value in state_dict.items() if name.startswith(prefix)}
        missing, unexpected, error = rpc_sync(self.module_rref.owner(), _load, (self.module_rref, state))
        missing_keys += [prefix + name for name in missing]
        unexpected_keys += [prefix + name for name in unexpected]
        error_msgs += [error] if error else []

    @classmethod
    def init_from_module_rref(cls, remote_device: str, module_rref: RRef[torch.nn.Module]) -> RemoteModule:
        """Another handle of a module that lies on a rank already, at this device; for a rank that was passed its RRef."""
        module = cls.__new__(cls)
        torch.nn.Module.__init__(module)
        module._place(remote_device)
        if _session.rank_of(module.on) != module_rref.owner().id:
            raise InputError(
                f"RemoteModule.init_from_module_rref() on {remote_device!r}, of a module that {module_rref.owner_name()} owns",
                "Name the owner and the module's device there.",
            )
        module.module_rref = module_rref
        return module

    def get_module_rref(self) -> RRef[torch.nn.Module]:
        """A reference to the module on its rank."""
        return self.module_rref

    def train(self, mode: bool = True) -> RemoteModule:
        """Sets the module, where it lies, to training or evaluation."""
        self.module_rref.rpc_sync().train(mode)
        super().train(mode)
        return self

    def _call(self, args: Any, kwargs: Any) -> Any:
        return self.module_rref, args, kwargs, self.device, self._comes_to_cpu()

    def _comes_to_cpu(self) -> bool:
        owner = self.module_rref.owner()
        if self.device.type == "cpu" or self.module_rref.is_owner():
            return False
        maps = _session.current().options.device_maps
        return not any(self.device in maps.get(name, {}).values() for name in (owner.name, f"rank:{owner.id}"))


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(self: RemoteModule, *args: Any, **kwargs: Any) -> Any:
        raise InputError(
            f"RemoteModule.{name}(): the module lies on {self.on}, and so do its parameters and buffers",
            "remote_parameters() refers to its parameters, state_dict() copies them, get_module_rref().rpc_sync() calls its methods.",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused, because the module lies on another rank."
    return refuse


# These methods of torch.nn.Module would silently find nothing. Modules that contain a RemoteModule may call theirs.
for _name in (
    *("parameters", "named_parameters", "buffers", "named_buffers", "register_parameter", "register_buffer"),
    *("to", "cuda", "cpu", "type", "float", "double", "half", "bfloat16", "requires_grad_", "zero_grad", "share_memory"),
):
    setattr(RemoteModule, _name, _refuse(_name))


def _device(remote_device: str, name: str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise InputError(f"RemoteModule() on {remote_device!r}", 'Name rank and device: "worker1/cuda:1".') from error


def _make(module_cls: Callable[..., torch.nn.Module], args: Any, kwargs: Any, device: torch.device) -> torch.nn.Module:
    _rpc.note_device(str(device))
    return module_cls(*args, **kwargs).to(device)


def _forward(rref: RRef[torch.nn.Module], args: Any, kwargs: Any, device: torch.device, to_cpu: bool) -> Any:
    _rpc.note_device(str(device))
    result = rref.local_value()(*_moved(args, "cpu", device), **_moved(kwargs, "cpu", device))
    return _moved(result, "cuda", torch.device("cpu")) if to_cpu else result


def _state(rref: RRef[torch.nn.Module], to_cpu: bool) -> dict[str, Any]:
    state = dict(rref.local_value().state_dict())
    return cast(dict[str, Any], _moved(state, "cuda", torch.device("cpu"))) if to_cpu else state


def _load(rref: RRef[torch.nn.Module], state: dict[str, Any]) -> tuple[list[str], list[str], str]:
    """Names that are missing, names of nothing, and what else is wrong."""
    try:
        missing, unexpected = rref.local_value().load_state_dict(state, strict=False)
    except RuntimeError as error:  # of other shapes
        return [], [], str(error)
    return missing, unexpected, ""


def _moved(value: Any, kind: str, device: torch.device) -> Any:
    """Copies a value with all tensors on this kind of device moved, in lists, tuples, dicts and dataclasses, too."""
    if isinstance(value, torch.Tensor):
        return value.to(device) if value.device.type == kind else value
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):  # whose sizes of batches stay on the CPU
        return cast(Any, value).to(device) if value.data.device.type == kind else value
    if isinstance(value, (list, tuple)):
        moved = [_moved(each, kind, device) for each in value]
        return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
    if isinstance(value, dict):
        items = copy.copy(value)  # an OrderedDict stays one, a defaultdict keeps its factory
        items.update((key, _moved(each, kind, device)) for key, each in value.items())
        return items
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = copy.copy(value)
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):  # of frozen ones, too
                object.__setattr__(fields, field.name, _moved(getattr(value, field.name), kind, device))
        return fields
    return value


def _parameters(rref: RRef[torch.nn.Module], recurse: bool) -> list[RRef[torch.nn.Parameter]]:
    return [RRef(each) for each in rref.local_value().parameters(recurse)]
