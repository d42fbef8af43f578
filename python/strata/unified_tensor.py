# SPDX-License-Identifier: Apache-2.0
"""Tensors in host memory that the GPU reads in place: PyTorch-Direct's unified tensors, its notation, and DGL's two names."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from strata import _core
from strata._arrays import current_stream
from strata._indices import as_tensor, rows_of
from strata._process import process
from strata.errors import InputError

if TYPE_CHECKING:
    import torch


class UnifiedTensor:
    """A CPU tensor that this process's GPU indexes in place; made by unified().

        u = strata.unified(features)            # nothing is copied
        rows = u[index]                         # on the GPU; index on the CPU or on the GPU
        torch.index_select(u, 0, index, out=buffer[:n])
        u[index] = rows                         # the CPU sees them after u.fence()

    Without a GPU it indexes on the CPU. copy.deepcopy() copies the memory. Only a tensor in shared memory
    (tensor.share_memory_() before unified()) can be pickled: a torch.multiprocessing.Queue then shares it.
    """

    def __init__(
        self,
        tensor: torch.Tensor,
        *,
        check: bool = True,
        host_gather: str = "auto",
        host_threads: int = 0,
        read_only: bool = False,
    ) -> None:
        _check(tensor)
        self._tensor = tensor.detach()
        self._checks = check
        self._reads_only = read_only
        self._options: dict[str, Any] = {"check": check, "host_gather": host_gather, "host_threads": host_threads}
        width = math.prod(tensor.shape[1:])
        # The extension sees rows of elements that every array library knows.
        rows = self._tensor.view(tensor.shape[0], width) if width else self._tensor
        # Its stubs know arrays by NumPy's types; tensors go in by DLPack.
        self._core: Any = None
        if tensor.numel():
            self._core = _core.UnifiedTensor.make(process(), cast(Any, _as_plain(rows)), host_gather, host_threads)

    @property
    def shape(self) -> torch.Size:
        """The shape of the CPU tensor, [N, ...]."""
        return self._tensor.shape

    @property
    def dtype(self) -> torch.dtype:
        """The type of the CPU tensor."""
        return self._tensor.dtype

    @property
    def device(self) -> str:
        """The device of indexing's results."""
        return process().device

    def size(self, dim: int | None = None) -> Any:
        """The same as torch.Tensor.size(): the shape, or one of its entries."""
        return self._tensor.size() if dim is None else self._tensor.size(dim)

    def dim(self) -> int:
        """The number of dimensions."""
        return self._tensor.dim()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._tensor.ndim

    def numel(self) -> int:
        """The number of elements."""
        return self._tensor.numel()

    def element_size(self) -> int:
        """Bytes per element."""
        return self._tensor.element_size()

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._tensor.nbytes

    def is_pinned(self) -> bool:
        """Whether a GPU reads the memory in place."""
        return self._tensor.is_pinned()

    def __len__(self) -> int:
        return len(self._tensor)

    def cpu(self) -> torch.Tensor:
        """The CPU tensor itself."""
        return self._tensor

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The same as torch.Tensor.to() of the CPU tensor, which copies all of it to another device; "unified" gives itself."""
        if args == ("unified",) or kwargs == {"device": "unified"}:
            return self
        return self._tensor.to(*args, **kwargs)

    def index_select(self, dim: int, index: Any) -> torch.Tensor:
        """torch.index_select() of rows: `dim` is 0."""
        return _index_select(self, dim, index)

    def fence(self) -> None:
        """Waits until what was written is in host memory."""
        if self._core is not None:
            self._core.fence(process(), current_stream())

    def __getitem__(self, index: Any) -> torch.Tensor:
        """[*index.shape, ...] rows on the device. The index is int64 or int32, bool [rows], a list, an array, a slice or one integer.

        IndexError names the first index that is no row, for which the host waits until the GPU has looked at them;
        unified(tensor, check=False) leaves it out.
        """
        import torch

        asked = rows_of(index, len(self), "rows")
        out = torch.empty((asked.ids.numel(), *self.shape[1:]), dtype=self.dtype, device=self.device)
        self._gather(asked.ids, out)
        return out.view((*asked.shape, *self.shape[1:]))

    def __setitem__(self, index: Any, rows: Any) -> None:
        """Writes rows [*index.shape, ...] of this type, or what can be expanded to them: one row, or one number."""
        if self._reads_only:
            raise InputError("the array can only be read", "Give a copy of it, or open its file with mmap_mode=\"c\" or \"r+\".")
        asked = rows_of(index, len(self), "rows")
        values = self._values(rows, (*asked.shape, *self.shape[1:]))
        if self._core is None or not asked.ids.numel():
            return
        values = values.to(self.device).reshape(asked.ids.numel(), -1).contiguous()
        self._core.scatter(process(), asked.ids.to(self.device), _as_plain(values), current_stream(), self._checks_of(asked.ids))

    def _values(self, rows: Any, wanted: tuple[int, ...]) -> torch.Tensor:
        import torch

        is_number = isinstance(rows, (bool, int, float, complex))
        values = torch.tensor(rows, dtype=self.dtype) if is_number else as_tensor(rows)
        try:
            if values.dtype == self.dtype:
                return values.expand(wanted)
        except RuntimeError:
            pass
        raise InputError(
            f"rows {tuple(values.shape)} of {values.dtype} for {wanted} of {self.dtype}",
            "Give one row per index, or one row for all, of the tensor's type: rows.to(u.dtype).",
        )

    def _gather(self, ids: torch.Tensor, out: torch.Tensor) -> None:
        if not ids.numel():
            return
        if self._core is None:
            if self.shape[0] == 0:
                raise IndexError(f"index 0 is {int(ids[0])}, which is no row of 0")
            return
        plain = _as_plain(out.view(out.shape[0], -1))
        self._core.gather(process(), ids.to(self.device), plain, current_stream(), self._checks_of(ids))

    def _checks_of(self, ids: torch.Tensor) -> bool:
        return self._checks or ids.device.type == "cpu"

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Sequence[Any] = (), keywords: Any = None) -> Any:
        import torch

        # Other packages replace functions of torch by their own, which call torch's: either may come.
        replaced = {torch.index_select: "index_select", torch.nn.functional.embedding: "embedding"}
        name = replaced.get(function) or str(getattr(function, "__name__", function))
        made: Any = {"index_select": _index_select, "embedding": _embedding}.get(name)
        if made is None:
            raise TypeError(f"{name} is not possible on a unified tensor; index it, or take its cpu()")
        return made(*arguments, **(keywords or {}))

    def __copy__(self) -> UnifiedTensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> UnifiedTensor:
        copied = memo[id(self)] = UnifiedTensor(self._tensor.clone(), **self._options)
        return copied

    def __reduce__(self) -> Any:
        # A queue moves other memory to where it can be shared, away from what the GPU reads.
        if not self._tensor.is_shared():  # type: ignore[no-untyped-call]
            raise InputError(
                "a unified tensor whose memory is not shared cannot be sent to another process or saved",
                "Send or save its cpu(), or share the tensor first: strata.unified(tensor.share_memory_()).",
            )
        return functools.partial(UnifiedTensor, **self._options), (self._tensor,)

    def __repr__(self) -> str:
        return f"strata.unified(shape={tuple(self.shape)}, dtype={self.dtype}, device={self.device!r})"


def _index_select(input: UnifiedTensor, dim: int, index: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    if dim not in (0, -input.dim()):
        raise InputError(f"index_select of dimension {dim} is not possible", "A unified tensor gives rows: dim=0.")
    if out is None:
        return input[index]
    asked = rows_of(index, len(input), "rows")
    wanted = (asked.ids.numel(), *input.shape[1:])
    if out.numel() == 0:
        out.resize_(wanted)
    if tuple(out.shape) != wanted or out.dtype != input.dtype or not out.is_contiguous() or str(out.device) != input.device:
        raise InputError(
            f"out is {tuple(out.shape)} of {out.dtype} on {out.device}; wanted is {wanted} of {input.dtype} on {input.device}",
            "Give a contiguous tensor of that shape: buffer[:n].",
        )
    input._gather(asked.ids, out)
    return out


def _embedding(input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None, *_: Any, **__: Any) -> torch.Tensor:
    """torch.nn.functional.embedding(); torch.embedding() has its arguments the other way round."""
    if isinstance(input, UnifiedTensor):
        input, weight, max_norm = weight, input, None
    if max_norm is not None:
        raise InputError("embedding with max_norm, which changes rows, is not possible", "Leave it out.")
    rows: torch.Tensor = weight[input]
    return rows


def _check(tensor: torch.Tensor) -> None:
    if tensor.device.type != "cpu":
        raise InputError(f"the tensor is on {tensor.device}", "Unified tensors are views of CPU tensors.")
    if tensor.is_conj() or tensor.is_neg():
        raise InputError("the tensor is a view that changes what it reads", "Give tensor.resolve_conj().resolve_neg().")
    if tensor.dim() == 0:
        raise InputError("the tensor has no dimensions", "Give rows: shape [N] or [N, ...].")
    if not tensor.is_contiguous():
        raise InputError(
            "the tensor is not contiguous", "Give tensor.contiguous(), which is a copy, or the tensor it is a view of."
        )


def _as_plain(rows: torch.Tensor) -> torch.Tensor:
    """The same memory as integers, for types that DLPack or NumPy has no name for."""
    import torch

    plain = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    if rows.element_size() == 16:
        rows = torch.view_as_real(rows).flatten(-2)
    return rows.view(plain[rows.element_size()])


def unified(tensor: Any, *, check: bool = True, host_gather: str = "auto", host_threads: int = 0) -> UnifiedTensor:
    """A CPU tensor, or array, as a tensor that this process's GPU indexes in place. Nothing is copied; it is kept alive.

    Contiguous tensors of any type and shape [N, ...], mapped files and shared memory included. The memory is registered with
    CUDA, in every process that calls this. `check=False` does without looking at indices that lie on the GPU.

    `host_gather` says how rows reach the GPU, as strata-train's option does: "zero-copy" (kernels read them in aligned
    pieces), "threads" of the CPU (`host_threads` of them; 0: three quarters of the cores), "both", or "auto": both where the
    tensor has more than 1 GiB and the process four cores, else zero copy.

    An array that can only be read, such as numpy.load(file, mmap_mode="r"), gives rows and takes none.
    """
    import numpy

    read_only = isinstance(tensor, numpy.ndarray) and not tensor.flags.writeable
    return UnifiedTensor(
        _without_copy(numpy.asarray(_Writable(tensor)) if read_only else tensor),
        check=check,
        host_gather=host_gather,
        host_threads=host_threads,
        read_only=read_only,
    )


class _Writable:
    """An object from which NumPy makes a writable array of the same memory; torch has no read-only tensors."""

    def __init__(self, array: Any) -> None:
        self._array = array  # lives as long
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def enable_unified_device() -> None:
    """PyTorch-Direct's notation: torch.Tensor.to("unified") gives strata.unified() in this process from now on.

        strata.enable_unified_device()
        u = features.to(device="unified")       # the memory of features, if it is a contiguous CPU tensor; else a copy
        rows = u[index]                         # on the GPU, which reads them in place

    Further arguments of to(), such as a type, count before. torch has no device of this name: what is made elsewhere with
    device="unified", or a module's to("unified"), is torch's error.
    """
    import torch

    to: Any = torch.Tensor.to
    if getattr(to, "_knows_unified", False):
        return

    @functools.wraps(to)
    def to_or_unified(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        device = args[0] if args else kwargs.get("device")
        if not isinstance(device, str) or device != "unified":
            return to(self, *args, **kwargs)
        on_cpu = to(self, "cpu", *args[1:], **{name: value for name, value in kwargs.items() if name != "device"})
        return unified(on_cpu.resolve_conj().resolve_neg().contiguous())

    to_or_unified._knows_unified = True  # type: ignore[attr-defined]
    torch.Tensor.to = to_or_unified  # type: ignore[method-assign, assignment]


def _without_copy(array: Any) -> torch.Tensor:
    """The same memory as a tensor of torch."""
    import torch

    if isinstance(array, torch.Tensor):
        return array
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"the tensor is a {type(array).__name__}; give a tensor of torch, or an array")
    try:
        imported: torch.Tensor = torch.utils.dlpack.from_dlpack(array)
    except BufferError as error:
        raise InputError(f"the array cannot be a tensor: {error}", "Give numbers that torch has, too.") from None
    return imported


def _require_tensor(tensor: Any) -> None:
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"the tensor is a {type(tensor).__name__}; give a tensor of torch")


_pinned: dict[int, Any] = {}


def pin_memory_inplace(tensor: torch.Tensor) -> Any:
    """DGL's name: registers the tensor's memory with CUDA, until it or the result is gone. See unified()."""
    _require_tensor(tensor)
    made = UnifiedTensor(tensor)
    key = tensor.data_ptr()
    _pinned[key] = weakref.ref(made, lambda _: _pinned.pop(key, None))
    tensor._strata_unified = made  # type: ignore[attr-defined]  # lives with the tensor
    return made


def gather_pinned_tensor_rows(tensor: torch.Tensor | UnifiedTensor, rows: torch.Tensor) -> torch.Tensor:
    """DGL's name: tensor[rows] on the GPU, of a tensor that pin_memory_inplace() registered, or of what that returned."""
    if isinstance(tensor, UnifiedTensor):
        return tensor[rows]
    _require_tensor(tensor)
    reference = _pinned.get(tensor.data_ptr())
    made: UnifiedTensor | None = None if reference is None else reference()
    if made is None:
        raise InputError("the tensor was not registered", "Call strata.pin_memory_inplace(tensor) first.")
    if tensor.shape != made.shape or tensor.dtype != made.dtype or not tensor.is_contiguous():
        raise InputError(
            f"{tuple(tensor.shape)} of {tensor.dtype} is another view of the memory that was registered as {made!r}",
            "Give the tensor that was registered, and take a part of the rows that come.",
        )
    return made[rows]
