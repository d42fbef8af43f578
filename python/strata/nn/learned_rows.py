# SPDX-License-Identifier: Apache-2.0
"""Rows that are learned, for nodes without features, and the optimizer that updates only those that a batch has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor

from strata._default_group import device_of_group, gathered, size_of_group
from strata._process import process
from strata.errors import InputError
from strata.nn._inputs import check_channels, refuse
from strata.nn.edges import EdgeLists
from strata.nn.sage import sum_of_neighbors
from strata.unified_tensor import UnifiedTensor, unified

_STATES = {"adam": ("exp_avg", "exp_avg_sq", "steps"), "adagrad": ("sum",)}
_OF_ROWS = ("sum", "steps")  # which have one column


class LearnedRows(torch.nn.Module):
    """A table of rows by id, of which a step of training reads and updates only those of its batch.

        rows = strata.nn.LearnedRows(graph_sizes["conference"], 64)
        rows.follow(optimizer)                        # a step of the optimizer is one of the rows
        x["conference"] = rows(batch["conference"].n_id)

    Ids that are those of the input, as n_id is of a graph in memory and original_ids of one in parts, keep their rows in every run.

    With torch.distributed every rank has the whole table and makes the same step: ranks exchange the ids and gradients of their
    batches, and add them up in the order of ranks. As DistributedDataParallel does it, the gradient is the mean over ranks; a rank
    that has no rows in a step takes part. The state_dict is the same on all ranks, and any number of ranks resumes from it.

    The table is no parameter: other optimizers, DistributedDataParallel and clip_grad_norm_() do not see it.

    Args:
        num_rows, columns: the shape of the table.
        optimizer: "adam", of which each row counts its own steps (lazy Adam), or "adagrad", with one sum of squares per row.
        lr, betas, eps: as torch.optim.Adam and Adagrad have them; eps None is their default. `lr` is an attribute that may change.
        host: whether the table stays in host memory, where the GPU of this process reads and writes it in place.
        init: is called with the table, [num_rows, columns]; by default it is uniform, of a variance of 1 / columns.
    """

    def __init__(
        self,
        num_rows: int,
        columns: int,
        *,
        optimizer: str = "adam",
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float | None = None,
        host: bool = False,
        init: Callable[[Tensor], Any] | None = None,
    ) -> None:
        super().__init__()
        check_channels("LearnedRows", "columns", columns)
        if not isinstance(num_rows, int) or num_rows < 0:
            raise refuse("LearnedRows", "num_rows", num_rows, "Give the number of nodes.")
        if optimizer not in _STATES:
            raise refuse("LearnedRows", "optimizer", optimizer, 'Choose "adam" or "adagrad".')
        self.num_rows = num_rows
        self.columns = columns
        self.optimizer = optimizer
        self.lr = lr
        self.betas = betas
        self.eps = eps if eps is not None else {"adam": 1e-8, "adagrad": 1e-10}[optimizer]
        self.host = host
        self._init = init
        self._known_equal = False  # among ranks
        self._gradients: list[tuple[Tensor, Tensor]] = []  # ids and gradients since the last step
        # The last row takes what is written for no node.
        self._held: dict[str, Any] = {
            name: torch.zeros(num_rows + 1, 1 if name in _OF_ROWS else columns) for name in ("weight", *_STATES[optimizer])
        }
        if host:
            self._held = {name: _in_place(tensor) for name, tensor in self._held.items()}
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the table anew, the first rank's for all if torch.distributed is in use, and forgets the optimizer's state."""
        weight = torch.empty(self.num_rows, self.columns)
        bound = (3 / self.columns) ** 0.5
        with torch.no_grad():
            init = self._init or (lambda table: table.uniform_(-bound, bound))
            init(weight)
        if size_of_group("LearnedRows exchange gradients") > 1:
            weight = weight.to(device_of_group())
            distributed.broadcast(weight, 0)
        self._write({"weight": weight})
        self._gradients.clear()

    @property
    def weight(self) -> Tensor:
        """The table [num_rows, columns]: its memory, or on a GPU that reads host memory in place, host memory."""
        return self._tensor("weight")

    def _tensor(self, name: str) -> Tensor:
        held = self._held[name]
        if isinstance(held, UnifiedTensor):
            held.fence()
            held = held.cpu()
        rows: Tensor = held[: self.num_rows]
        return rows

    def _write(self, values: dict[str, Tensor]) -> None:
        """Sets tensors, the others to 0."""
        with torch.no_grad():
            for name in self._held:
                self._tensor(name).copy_(values[name]) if name in values else self._tensor(name).zero_()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, ids: Tensor) -> Tensor:
        """float32 [n, columns] of ids int64 [n], on their device. IndexError for ids that are no rows; a GPU stops at them."""
        if ids.dim() != 1 or ids.is_floating_point():
            raise InputError(
                f"LearnedRows: ids are {ids.dtype} of shape {list(ids.shape)}", "Give int64 [n], such as batch.n_id."
            )
        ids = ids.long()
        self._check(ids)
        with torch.no_grad():
            held = self._held["weight"]
            if isinstance(held, Tensor) and held.device != ids.device:
                raise InputError(
                    f"LearnedRows: ids lie on {ids.device}, the table on {held.device}",
                    "Move the layer, or make it with host=True.",
                )
            rows: Tensor = held[ids]
        if torch.is_grad_enabled():
            rows.requires_grad_().register_post_accumulate_grad_hook(lambda graded: self._keep(ids, graded))  # type: ignore[no-untyped-call]
        return rows

    def _check(self, ids: Tensor) -> None:
        if ids.is_cuda and len(ids):
            torch._assert_async(((ids >= 0) & (ids < self.num_rows)).all(), "an id is no row of LearnedRows")
        elif len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.num_rows:
            raise IndexError(f"ids are {int(ids.min())} to {int(ids.max())}, but LearnedRows has {self.num_rows} rows")

    def _keep(self, ids: Tensor, graded: Tensor) -> None:
        if graded.grad is not None:
            self._gradients.append((ids, graded.grad.detach()))
            graded.grad = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients since the last step; a module that has this one as a part does not call it."""
        self._gradients.clear()

    def follow(self, optimizer: torch.optim.Optimizer) -> None:
        """Makes a step after each of the optimizer's."""
        optimizer.register_step_post_hook(lambda *_: self.step())

    @torch.no_grad()
    def step(self) -> None:
        """Updates the rows that got gradients since the last step. Collective among the ranks of torch.distributed."""
        device = self._gradients[0][0].device if self._gradients else torch.device("cpu")
        ids = torch.cat([ids for ids, _ in self._gradients] or [torch.empty(0, dtype=torch.int64)])
        grads = torch.cat([grads for _, grads in self._gradients] or [torch.empty(0, self.columns)]).float()
        self._gradients.clear()
        if size_of_group("LearnedRows exchange gradients") > 1:
            device = torch.device(process().device) if self.host else self.weight.device
            ids, grads = (gathered.to(device) for gathered in self._of_all_ranks(ids, grads))
        if len(ids):
            self._update(*self._summed(ids, grads))

    def _of_all_ranks(self, ids: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
        """All ranks' ids and gradients, in the order of ranks; the mean over ranks."""
        device = device_of_group()
        facts = torch.tensor(
            [float(len(ids)), 0 if self._known_equal else float(self.weight.double().sum())], dtype=torch.float64
        )
        of_ranks = gathered(facts.to(device)).cpu().view(-1, 2)
        if len(set(of_ranks[:, 1].tolist())) > 1:
            raise InputError(
                "LearnedRows differ among ranks",
                "Make them after torch.distributed has its group, call reset_parameters() then, or load one state_dict on all ranks.",
            )
        self._known_equal = True
        counts = [int(count) for count in of_ranks[:, 0]]
        behind = max(counts) - len(ids)
        all_ids = gathered(torch.nn.functional.pad(ids.to(device), (0, behind)))
        all_grads = gathered(torch.nn.functional.pad(grads.to(device), (0, 0, 0, behind)))
        chosen = torch.cat([torch.arange(count) + rank * max(counts) for rank, count in enumerate(counts)]).to(device)
        return all_ids[chosen], all_grads[chosen] / len(counts)

    def _summed(self, ids: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
        """Distinct ids and the sums of their gradients in order; the rest are no node's, so that the host need not wait for their number."""
        ids, order = torch.sort(ids, stable=True)
        is_next = torch.zeros_like(ids)
        is_next[1:] = ids[1:] != ids[:-1]
        firsts = torch.searchsorted(is_next.cumsum(0), torch.arange(len(ids) + 1, device=ids.device))
        sums = sum_of_neighbors(grads, EdgeLists(len(ids), len(ids), firsts, order.int()))
        return torch.where(firsts.diff() > 0, ids[firsts[:-1].clamp(max=len(ids) - 1)], self.num_rows), sums

    def _update(self, ids: Tensor, grads: Tensor) -> None:
        held = self._held
        if self.optimizer == "adagrad":
            held["sum"][ids] = total = held["sum"][ids] + grads.square().mean(1, keepdim=True)
            held["weight"][ids] = held["weight"][ids] - self.lr * grads / (total.sqrt() + self.eps)
            return
        of_mean, of_square = self.betas
        held["steps"][ids] = steps = held["steps"][ids] + 1
        held["exp_avg"][ids] = mean = held["exp_avg"][ids].lerp(grads, 1 - of_mean)
        held["exp_avg_sq"][ids] = square = held["exp_avg_sq"][ids] * of_square + (1 - of_square) * grads.square()
        mean_bias, square_bias = ((1 - beta ** steps.double()).float() for beta in self.betas)
        held["weight"][ids] = held["weight"][ids] - self.lr / mean_bias * mean / ((square / square_bias).sqrt() + self.eps)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> LearnedRows:
        if not self.host:
            device = fn(torch.empty(0, device=self.weight.device)).device
            self._held = {name: held.to(device) for name, held in self._held.items()}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self._held:
            destination[prefix + name] = self._tensor(name)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        values = {name: state_dict[prefix + name] for name in self._held if prefix + name in state_dict}
        missing += [prefix + name for name in self._held if name not in values]
        known = {prefix + name for name in self._held}
        unexpected += [name for name in state_dict if strict and name.startswith(prefix) and name not in known]
        wrong = {name: value for name, value in values.items() if value.shape != self._tensor(name).shape}
        errors += [
            f"{prefix}{name} is {list(value.shape)}, wanted is {list(self._tensor(name).shape)}"
            for name, value in wrong.items()
        ]
        if len(values) == len(self._held) and not wrong:
            self._write(values)
            self._gradients.clear()
            self._known_equal = False

    def __getstate__(self) -> dict[str, Any]:
        _ = self.weight  # waits for what a GPU writes to host memory
        tensors = {name: held.cpu() if isinstance(held, UnifiedTensor) else held for name, held in self._held.items()}
        return vars(self) | {"_held": tensors, "_gradients": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self.host:
            self._held = {name: _in_place(tensor) for name, tensor in self._held.items()}

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.num_rows}, {self.columns}, optimizer={self.optimizer!r}, lr={self.lr}, host={self.host}"


def _in_place(tensor: Tensor) -> UnifiedTensor:
    """Host memory as the GPU sees it; threads of the CPU do not read it, for they would not see what the GPU wrote."""
    return unified(tensor, check=False, host_gather="zero-copy")
