# SPDX-License-Identifier: Apache-2.0
"""Rows that are learned: a table that the ranks of a run hold together, and the optimizer that updates only the rows of a batch."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from strata import _arguments, _core
from strata._arrays import current_stream
from strata._files import Rows, read_rows, written
from strata._indices import as_tensor
from strata._process import process, refuse_forks, register, together
from strata.errors import InputError
from strata.graph import Graph, _numbers, require_graph

_OPTIMIZERS = ("sgd", "rowwise_adagrad", "adagrad", "adam")
_PLACEMENTS = ("auto", "striped", "host")
_AT_ONCE = 1 << 28  # bytes of rows that pass through a rank at once


class Embedding(torch.nn.Module):
    """A table of rows by id, of which a step of training reads and updates only those of its batch.

        rows = strata.Embedding(graph, 64, lr=0.01)
        rows.follow(optimizer)                        # a step of the optimizer is one of the rows
        x = rows(batch.n_id)

    All ranks hold one table together: in the memory of the GPUs ("striped"), or in host memory, which GPUs read and write in
    place. Every rank makes the table, in the same order, and step() is collective; calling it is collective if the run has several
    machines. The gradient of a row is the sum over the batches and ranks that read it, in the order of ranks, never a mean:
    with DistributedDataParallel, which divides by the ranks, give step() and follow() scale=1 / ranks.

    The table is no parameter: other optimizers, DistributedDataParallel and clip_grad_norm_() do not see it. A state_dict() holds all of
    it, by the input's ids; taking it is collective on several machines, load_state_dict() always, and rank 0's counts.

    Args:
        rows: their number, or a graph, whose nodes have a row each. On several machines those of a graph of one type lie where the nodes
            do; others are spread evenly.
        columns: of each row.
        node_type: of a graph of several types: whose nodes have rows, which are counted within the type.
        optimizer: "adam", lazy as torch.optim.SparseAdam, "adagrad" as torch.optim.Adagrad, "rowwise_adagrad" with one sum
            of squares per row, or "sgd".
        lr, betas, eps: as torch's optimizers have them; eps None is their default. `lr` is an attribute that may change.
        placement: "auto" is "striped" where the table and its state take at most half of the free memory of the GPUs, else "host".
        init: is called with the whole table on rank 0; by default it is uniform, of a variance of 1 / columns, which takes no such memory.
    """

    def __init__(
        self,
        rows: int | Graph,
        columns: int,
        *,
        node_type: str | None = None,
        optimizer: str = "adam",
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float | None = None,
        placement: str = "auto",
        init: Callable[[Tensor], Any] | None = None,
    ) -> None:
        super().__init__()
        self.num_rows, self._graph = _rows_of(rows, node_type)
        self.columns = _arguments.integer(columns, "columns", 1)
        self.optimizer = _one_of(optimizer, "optimizer", _OPTIMIZERS)
        self.placement = _one_of(placement, "placement", _PLACEMENTS)
        self.lr = lr
        self.betas = betas
        self.eps = eps if eps is not None else 1e-8 if optimizer == "adam" else 1e-10
        self._init = init
        self._gradients: list[tuple[Tensor, Tensor]] = []  # ids and gradients since the last step
        self._core: Any = _core.Embedding.make(  # its stubs know arrays by NumPy's types; tensors go in by DLPack
            process(),
            self.num_rows,
            self.columns,
            self.optimizer,
            self.placement,
            None if self._graph is None else self._graph._core,
        )
        self.placement = "striped" if self._core.is_striped else "host"
        self._parts = dict(self._core.parts)
        self._number = next(_numbers)
        register(self)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the table anew, from rank 0's random numbers, and forgets the optimizer's state. Collective."""
        seed = int(process().broadcast(str(int(torch.randint(2**63 - 1, (), device="cpu"))), 0))
        self._core.initialize(process(), seed, 0.0 if self._init else (3 / self.columns) ** 0.5)
        self._gradients.clear()
        if self._init is None:
            return
        first = process().rank == 0
        table = torch.empty(self.num_rows if first else 0, self.columns)
        with torch.no_grad():
            together(lambda: self._init(table) if first and self._init else None)
        self._write_all("weight", lambda begin, end: table[begin:end])

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, ids: Tensor) -> Tensor:
        """float32 [n, columns] of ids int64 [n], on this process's device. IndexError for ids that are no rows; a GPU stops at them.

        Collective if the run has several machines, for ranks without ids, too.
        """
        ids = self._checked(ids)
        rows = self._read("weight", ids)
        if torch.is_grad_enabled():
            rows.requires_grad_().register_post_accumulate_grad_hook(lambda graded: self._keep(ids, graded))  # type: ignore[no-untyped-call]
        return rows

    def _checked(self, given: Any) -> Tensor:
        ids: Tensor = as_tensor(given)
        if ids.dim() != 1 or ids.is_floating_point() or ids.dtype == torch.bool:
            raise InputError(
                f"Embedding: ids are {ids.dtype} of shape {list(ids.shape)}", "Give int64 [n], such as batch.n_id."
            )
        ids = ids.long()
        if ids.is_cuda and len(ids):
            torch._assert_async(((ids >= 0) & (ids < self.num_rows)).all(), "an id is no row of the Embedding")
        elif len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.num_rows:
            raise IndexError(f"ids are {int(ids.min())} to {int(ids.max())}, but the Embedding has {self.num_rows} rows")
        return ids.to(process().device, non_blocking=True).contiguous()

    def _keep(self, ids: Tensor, graded: Tensor) -> None:
        if graded.grad is not None:
            self._gradients.append((ids, graded.grad.detach()))
            graded.grad = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients since the last step; a module that has this one as a part does not call it."""
        self._gradients.clear()

    def follow(self, optimizer: torch.optim.Optimizer, scale: float = 1.0) -> None:
        """Makes a step after each of the optimizer's."""
        optimizer.register_step_post_hook(lambda *_: self.step(scale))

    @torch.no_grad()
    def step(self, scale: float = 1.0) -> None:
        """Updates the rows that got gradients since the last step, by `scale` times their sums. Collective, for ranks without rows, too.

        Steps are counted for the table, as torch's optimizers count them for a parameter.
        """
        device = process().device
        if len(self._gradients) == 1:
            ids, gradients = self._gradients[0]
        else:
            ids = torch.cat([ids for ids, _ in self._gradients] or [torch.empty(0, dtype=torch.int64, device=device)])
            gradients = torch.cat([g for _, g in self._gradients] or [torch.empty(0, self.columns, device=device)])
        self._gradients.clear()
        self._core.update(process(), ids, gradients.contiguous(), self.lr, self.betas, self.eps, scale, current_stream())

    @torch.no_grad()
    def write(self, ids: Any, rows: Tensor) -> None:
        """Sets rows, float32 [n, columns], of ids int64 [n]. Collective: of an id that is given several times the last row counts, and
        among ranks that of the highest. The optimizer's state stays."""
        ids = self._checked(ids)
        rows = as_tensor(rows)
        if tuple(rows.shape) != (len(ids), self.columns) or rows.dtype != torch.float32:
            raise InputError(
                f"rows are {rows.dtype} of shape {list(rows.shape)} for {len(ids)} ids and {self.columns} columns",
                "Give float32 [n, columns].",
            )
        self._write("weight", ids, rows)

    @property
    def weight(self) -> Tensor:
        """A copy of the table on the CPU, [num_rows, columns] by the input's ids. Collective if the run has several machines."""
        return self._whole("weight")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the rows by the input's ids: to NAME.safetensors with the state of the optimizer, to NAME.npy without. Collective; rank 0
        writes, piece by piece. Any ranks and machines load() them to the last bit."""
        refuse_forks()
        kind = _kind_of(path)
        parts = self._parts if kind == ".safetensors" else {"weight": self.columns}
        tensors = {name: Rows((self.num_rows, columns), self._pieces_of(name, columns)) for name, columns in parts.items()}
        if kind == ".safetensors":
            tensors["updates"] = Rows((1,), iter([torch.tensor([self._core.updates])]), "I64")
        written(pathlib.Path(path), kind, tensors, writes=process().rank == 0)
        process().barrier()

    def load(self, path: str | os.PathLike[str]) -> None:
        """Reads what save() wrote, on any ranks; a NAME.npy leaves no state of an optimizer. Collective; rank 0 reads the file."""
        kind = _kind_of(path)
        found: dict[str, Tensor] = {}

        def open_file() -> None:
            if process().rank == 0:
                found.update(read_rows(pathlib.Path(path), kind))
                self._check_shapes(found, ["weight"] if kind == ".npy" else [*self._parts, "updates"])

        together(open_file)
        for name in self._parts:
            held = found.get(name)
            self._write_all(
                name, lambda begin, end: torch.zeros(end - begin, self._parts[name]) if held is None else held[begin:end]
            )
        updates = int(found["updates"]) if "updates" in found else 0
        self._core.updates = int(process().broadcast(str(updates), 0))
        self._gradients.clear()

    def _check_shapes(self, values: dict[str, Tensor], names: list[str]) -> None:
        wanted: dict[str, list[int]] = {name: [self.num_rows, columns] for name, columns in self._parts.items()} | {
            "updates": [1]
        }
        missing = [name for name in names if name not in values]
        unknown = [name for name in values if name not in names]
        if missing or unknown:
            raise InputError(
                f"the rows have no {missing}"
                if missing
                else f"the rows have {unknown}, which optimizer={self.optimizer!r} has not",
                "Load rows that an Embedding with the same optimizer saved, or the weights alone: NAME.npy.",
            )
        for name, value in values.items():
            if list(value.shape) != wanted[name]:
                raise InputError(
                    f"{name} is {list(value.shape)}, wanted is {wanted[name]}",
                    "Make the Embedding for as many rows and columns.",
                )

    def _ids(self, begin: int, end: int) -> Tensor:
        """The ids of the input's begin to end."""
        ids = torch.arange(begin, end)
        return self._graph.ids(ids) if self._graph is not None and self._graph.is_renumbered else ids

    def _bounds(self, columns: int) -> list[tuple[int, int]]:
        at_once = max(1, _AT_ONCE // (4 * columns))
        return [(begin, min(begin + at_once, self.num_rows)) for begin in range(0, self.num_rows, at_once)]

    def _pieces_of(self, name: str, columns: int) -> Any:
        """The rows of a part on rank 0, by the input's ids; the other ranks take part, with none."""
        for begin, end in self._bounds(columns):
            ids = self._ids(begin, end) if process().rank == 0 else torch.empty(0, dtype=torch.int64)
            yield self._read(name, ids.to(process().device)).cpu()

    def _write_all(self, name: str, rows: Callable[[int, int], Tensor]) -> None:
        """Sets all rows of a part to those that rank 0 gives."""
        columns = self._parts[name]
        for begin, end in self._bounds(columns):
            if process().rank == 0:
                self._write(name, self._ids(begin, end), rows(begin, end))
            else:
                self._write(name, torch.empty(0, dtype=torch.int64), torch.empty(0, columns))

    def _read(self, name: str, ids: Tensor) -> Tensor:
        rows = torch.empty(len(ids), self._parts[name], device=process().device)
        self._core.gather(process(), [*self._parts].index(name), ids, rows, current_stream())
        return rows

    def _write(self, name: str, ids: Tensor, rows: Tensor) -> None:
        device = process().device
        values = rows.detach().to(device).contiguous()
        self._core.write(process(), [*self._parts].index(name), ids.to(device), values, current_stream())

    @torch.no_grad()
    def _whole(self, name: str) -> Tensor:
        columns = self._parts[name]
        pieces = [self._read(name, self._ids(*bounds).to(process().device)).cpu() for bounds in self._bounds(columns)]
        return torch.cat(pieces) if pieces else torch.empty(0, columns)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self._parts:
            destination[prefix + name] = self._whole(name)
        destination[prefix + "updates"] = torch.tensor([self._core.updates])

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        names = [*self._parts, "updates"]
        values = {name: state_dict[prefix + name] for name in names if prefix + name in state_dict}
        missing += [prefix + name for name in names if name not in values]
        unexpected += [key for key in state_dict if strict and key.startswith(prefix) and key[len(prefix) :] not in names]
        if len(values) != len(names):
            return
        try:
            self._check_shapes(values, names)
        except InputError as error:
            errors.append(f"{prefix}: {error}")
            return
        for name in self._parts:
            self._write_all(name, lambda begin, end: values[name][begin:end])
        self._core.updates = int(values["updates"])
        self._gradients.clear()

    def close(self) -> None:
        """Gives the memory back. Collective. At the end of the program this happens by itself."""
        refuse_forks()
        if "_core" in vars(self) and vars(self).get("_is_open", True):
            self._is_open = False
            self._core.close(process())

    def __deepcopy__(self, memo: Any) -> Embedding:
        raise InputError("an Embedding cannot be copied", "Make another one, and give it the state_dict() of this one.")

    def __reduce__(self) -> Any:
        raise InputError("an Embedding cannot be pickled", "Save its state_dict(), or use save().")

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.num_rows}, {self.columns}, optimizer={self.optimizer!r}, lr={self.lr}, placement={self.placement!r}"


def _rows_of(rows: Any, node_type: str | None) -> tuple[int, Graph | None]:
    """The number of rows, and the graph by whose ids they are called if that is not the input's."""
    if not isinstance(rows, Graph):
        if node_type is not None:
            raise InputError(f"node_type={node_type!r} without a graph", "Give the graph instead of a number of rows.")
        return _arguments.integer(rows, "rows", 0), None
    require_graph(rows, several_types=True)
    if rows._types is None:
        if node_type is not None:
            raise InputError("the graph has one type of nodes", "Leave node_type out.")
        return rows.num_nodes, rows
    if node_type not in rows.node_types:
        raise InputError(f"node_type={node_type!r} is no type of the graph", f"Name one of {rows.node_types}.")
    return rows._types.nodes[node_type].size, None


def _one_of(value: Any, name: str, words: tuple[str, ...]) -> str:
    if value not in words:
        raise InputError(f"{name}={value!r} is not possible", f"Choose one of {', '.join(words)}.")
    return str(value)


def _kind_of(path: str | os.PathLike[str]) -> str:
    kind = pathlib.Path(path).suffix
    if kind not in (".safetensors", ".npy"):
        raise InputError(f"the rows' file is {str(path)!r}", "Call it NAME.safetensors, or NAME.npy for the weights alone.")
    return kind
