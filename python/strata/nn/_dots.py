# SPDX-License-Identifier: Apache-2.0
"""Attention by dot products as a custom operator of torch; see strata.nn.ops for the lists."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor
from torch.library import custom_op

from strata.errors import InputError
from strata.nn import ops
from strata.nn.edges import EdgeLists
from strata.nn._inputs import needs_grad


def attend_by_dots(queries: Tensor, rows: Tensor, lists: EdgeLists, heads: int) -> Tensor:
    """[D, H * C]: for each destination and head the sum of its sources' values by a softmax of <query, key>.

    queries [D, H * C]; rows [S, 2 * H * C] have the keys before the values. Both are float32 or bfloat16, and differentiable.
    """
    back = lists.out_lists() if needs_grad(queries, rows) else (None, None)
    out: Tensor = _attend(queries, rows, lists.indptr, lists.indices, *back, heads)[0]
    return out


@custom_op("strata::attend_by_dots", mutates_args=())
def _attend(
    queries: Tensor,
    rows: Tensor,
    indptr: Tensor,
    indices: Tensor,
    out_indptr: Optional[Tensor],
    out_indices: Optional[Tensor],
    heads: int,
) -> tuple[Tensor, Tensor]:
    """(the sum [D, H * C], log of the softmax's denominators [D, H])."""
    asked, of = ops._array(queries), ops._array(rows)
    out, log_sums = torch.empty_like(asked), asked.new_empty(asked.shape[0], heads, dtype=torch.float32)
    ops._kernels.attend_by_dots(indptr, indices, asked, of, heads, log_sums, out, ops._stream(of))
    return out, log_sums


@_attend.register_fake
def _(queries: Tensor, rows: Tensor, indptr: Any, indices: Any, out_indptr: Any, out_indices: Any, heads: int) -> Any:
    return queries.new_empty(queries.shape), queries.new_empty(queries.shape[0], heads, dtype=torch.float32)


@custom_op("strata::attend_by_dots_grad", mutates_args=())
def _attend_grad(
    grad: Tensor,
    log_sums: Tensor,
    queries: Tensor,
    rows: Tensor,
    indptr: Tensor,
    indices: Tensor,
    out_indptr: Tensor,
    out_indices: Tensor,
    heads: int,
) -> tuple[Tensor, Tensor]:
    """Gradients of queries and rows."""
    asked, of = ops._array(queries), ops._array(rows)
    grad_queries, grad_rows = torch.empty_like(asked), torch.empty_like(of)
    ops._kernels.attend_by_dots_grad(
        indptr,
        indices,
        asked,
        of,
        heads,
        out_indptr,
        out_indices,
        log_sums,
        ops._array(grad),
        torch.empty_like(log_sums),
        grad_queries,
        grad_rows,
        ops._stream(of),
    )
    return grad_queries, grad_rows


@_attend_grad.register_fake
def _(grad: Tensor, log_sums: Tensor, queries: Tensor, rows: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return queries.new_empty(queries.shape), rows.new_empty(rows.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.heads = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], *tensors)


def _grad_of(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    if ctx.saved_tensors[-1] is None:
        raise InputError("the gradient of attention needs the transposed lists", "Give out_indptr and out_indices.")
    return (*torch.ops.strata.attend_by_dots_grad(grad, *ctx.saved_tensors, ctx.heads),) + (None,) * 5


_attend.register_autograd(_grad_of, setup_context=_keep)
