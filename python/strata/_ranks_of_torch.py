# SPDX-License-Identifier: Apache-2.0
"""What ranks tell each other about tensors on the CPU, over a group of torch.distributed; nothing on a rank alone."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as distributed
from torch import Tensor

from strata._process import init_process_group, process

T = TypeVar("T")


class Ranks:
    """A group of all ranks for `with`, which makes torch.distributed's default group if there is none. Collective, as all of it is."""

    def __init__(self) -> None:
        self.size = process().size
        self._group: Any = None
        self._made_default = False

    def __enter__(self) -> Ranks:
        if self.size > 1:
            if not distributed.is_initialized():
                init_process_group()
                self._made_default = True
            self._group = distributed.new_group(backend="gloo")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if self._group is None or error is not None:  # other ranks may be elsewhere after an error
            return
        distributed.destroy_process_group(self._group)
        if self._made_default:
            distributed.destroy_process_group()

    def sum(self, values: Tensor) -> Tensor:
        """The sums over ranks, on the CPU."""
        total = values.detach().cpu().clone()
        if self.size > 1:
            distributed.all_reduce(total, group=self._group)
        return total

    def each(self, value: T) -> list[T]:
        """The values of all ranks."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value, group=self._group)
        return values

    def first_of(self, value: T | None) -> T | None:
        """The value of the first rank that has one."""
        return next((given for given in self.each(value) if given is not None), None)

    def rows_of(self, pieces: Sequence[Tensor], nodes: Sequence[Tensor], num_rows: int) -> Tensor:
        """All ranks' rows on each of them: [num_rows, ...], of the pieces that they have, whose rows are those of nodes[rank]."""
        shape, dtype = self.first_of((tuple(pieces[0].shape[1:]), pieces[0].dtype) if pieces else None) or ((), torch.float32)
        whole = torch.empty((num_rows, *shape), dtype=dtype)
        if self.size == 1:
            begin = 0
            for rows in pieces:
                whole[nodes[0][begin : begin + len(rows)]] = rows
                begin += len(rows)
            return whole
        for rank, ids in enumerate(nodes):
            is_own = rank == process().rank
            rows = torch.cat(list(pieces)) if is_own and pieces else torch.empty((len(ids), *shape), dtype=dtype)
            if len(ids):
                distributed.broadcast(rows, rank, group=self._group)
            whole[ids] = rows
        return whole
