# SPDX-License-Identifier: Apache-2.0
"""Strata's kernels as custom operators of torch, which autograd and torch.compile know.

They are in torch.ops.strata. Shapes, with S sources, D destinations, E edges, H heads of C columns: lists are `indptr`
int64 [D + 1] and `indices` int32 [E]; those of the transpose, `out_indptr` int64 [S + 1] and `out_indices` int32 [E], are
needed for gradients only. See EdgeLists, which makes both.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any, Optional

import torch
from torch import Tensor
from torch.library import custom_op

from strata import _core
from strata._process import process
from strata._torch import is_built_for_this_torch
from strata.errors import InputError

# Its stubs know arrays by NumPy's types; tensors go in by DLPack.
_kernels: Any = _core


@functools.cache
def _operator(name: str) -> Callable[..., Tensor] | None:
    """One that is written in C++; None in another torch than the one that Strata was built for."""
    if not is_built_for_this_torch():
        return None
    torch.ops.load_library(str(pathlib.Path(__file__).parents[1] / "_operators.so"))  # type: ignore[no-untyped-call]
    operator: Callable[..., Tensor] = getattr(torch.ops.strata, name).default
    return operator


def joined_layer() -> Callable[..., Tensor] | None:
    """A SAGE layer as one node of autograd, in C++ (nn/joined_layer.hpp):

        joined_layer(x, neighbors, root, bias, indptr, indices, out_indptr, out_indices, mean, relu) -> [D, out]

    None in another torch than Strata's, where join_sums and a product do the same, more slowly.
    """
    return _operator("joined_layer")


def grouped_product(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """rows[i] @ weights[g] of the rows [ends[g - 1], ends[g]) of each group, [M, out]; see nn/grouped_product.hpp.

    rows [M, in] and weights [G, in, out], float32 or bfloat16; ends int32 [G]. Differentiable in both. Under autocast to bfloat16
    both are converted to it. In another torch than Strata's it is a product per group, for which the host waits for a GPU.
    """
    kind = rows.device.type
    if torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16:
        rows, weights = rows.bfloat16(), weights.bfloat16()
    operator = _operator("grouped_product")
    if operator is not None:
        return operator(rows, weights, ends)
    firsts = [0, *ends.tolist()]
    parts = [rows[first:end] @ weight for first, end, weight in zip(firsts, firsts[1:], weights)]
    return torch.cat([*parts, rows.new_zeros(rows.shape[0] - firsts[-1], weights.shape[2])])


def _stream(tensor: Tensor) -> int:
    if not tensor.is_cuda:
        return 0
    if not _core.with_cuda:
        raise InputError(
            f"a tensor lies on {tensor.device}, and Strata was built without CUDA", "Build it with CUDA, or use the CPU."
        )
    return torch.cuda.current_stream(tensor.device).cuda_stream


def _array(tensor: Tensor) -> Tensor:
    """The tensor in a form that DLPack can export."""
    return tensor.detach().contiguous()


def _maybe(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else _array(tensor)


def _lists_like(indices: Tensor, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    count = indices.shape[-1]
    make = indices.new_empty
    return make(rows + 1, dtype=torch.int64), make(count, dtype=torch.int32), make(count, dtype=torch.int64)


def _grouped(keys: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """indptr of the sorted keys, and their stable order; without a synchronisation of the GPU."""
    ordered, order = torch.sort(keys, stable=True)
    return torch.searchsorted(ordered, torch.arange(rows + 1, device=keys.device, dtype=keys.dtype)), order


@custom_op("strata::sort_edges", mutates_args=())
def sort_edges(edge_index: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, Tensor, Tensor]:
    """(indptr, indices, origins) of edge_index int64 [2, E]: the edges by destination, and where each was, int64 [E]."""
    if edge_index.is_cuda:
        if edge_index.shape[1] > 0:
            least, most = edge_index.aminmax(dim=1)
            known = (least >= 0).all() & (most[0] < num_src) & (most[1] < num_dst)
            torch._assert_async(known, "edge_index names nodes that x does not have")
        indptr, origins = _grouped(edge_index[1], num_dst)
        return indptr, edge_index[0][origins].int(), origins
    out = _lists_like(edge_index, num_dst)
    _kernels.sort_edges(_array(edge_index), num_src, *out)
    return out


@sort_edges.register_fake
def _(edge_index: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, Tensor, Tensor]:
    return _lists_like(edge_index, num_dst)


@custom_op("strata::edge_index_of", mutates_args=())
def edge_index_of(indptr: Tensor, indices: Tensor) -> Tensor:
    """edge_index int64 [2, E] of lists, in their order."""
    out = indices.new_empty((2, indices.shape[0]), dtype=torch.int64)
    _kernels.write_edge_index(process(), _array(indptr), _array(indices), out, _stream(indices))
    return out


@edge_index_of.register_fake
def _(indptr: Tensor, indices: Tensor) -> Tensor:
    return indices.new_empty((2, indices.shape[0]), dtype=torch.int64)


@custom_op("strata::transpose_edges", mutates_args=())
def transpose_edges(indptr: Tensor, indices: Tensor, num_src: int) -> tuple[Tensor, Tensor, Tensor]:
    """(out_indptr, out_indices, origins): the edges by source, with ascending destinations, and where each was."""
    if indptr.is_cuda:
        rows = torch.arange(indptr.shape[0] - 1, device=indptr.device, dtype=torch.int32)
        destinations = torch.repeat_interleave(rows, indptr.diff(), output_size=indices.shape[0])
        out_indptr, origins = _grouped(indices, num_src)
        return out_indptr, destinations[origins], origins
    out = _lists_like(indices, num_src)
    _kernels.transpose_edges(_array(indptr), _array(indices), *out)
    return out


@transpose_edges.register_fake
def _(indptr: Tensor, indices: Tensor, num_src: int) -> tuple[Tensor, Tensor, Tensor]:
    return _lists_like(indices, num_src)


@custom_op("strata::sum_over_edges", mutates_args=())
def sum_over_edges(
    x: Tensor,
    indptr: Tensor,
    indices: Tensor,
    edge_scale: Optional[Tensor],
    row_scale: Optional[Tensor],
    col_scale: Optional[Tensor],
    self_scale: Optional[Tensor],
    out_indptr: Optional[Tensor],
    out_indices: Optional[Tensor],
    out_edge_scale: Optional[Tensor],
    skips_loops: bool = False,
) -> Tensor:
    """out[v] = row_scale[v] * sum over edges (u, v) of edge_scale * col_scale[u] * x[u], + self_scale[v] * x[v].

    x [S, F] float32 or bfloat16; scales float32, ones where None; self_scale is for the first rows, and none where None.
    `skips_loops` leaves out edges with u = v. Gives [D, F] in x's dtype. Differentiable in x.
    """
    out = x.new_empty(indptr.shape[0] - 1, x.shape[1])
    _kernels.sum_over_edges(
        indptr,
        indices,
        _array(x),
        _maybe(edge_scale),
        _maybe(row_scale),
        _maybe(col_scale),
        _maybe(self_scale),
        skips_loops,
        out,
        _stream(x),
    )
    return out


@sum_over_edges.register_fake
def _(x: Tensor, indptr: Tensor, *others: Any) -> Tensor:
    return x.new_empty(indptr.shape[0] - 1, x.shape[1])


def _keep_sum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, *tensors, ctx.skips_loops = inputs
    ctx.save_for_backward(*tensors)


def _grad_of_sum(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    indptr, indices, edge_scale, row_scale, col_scale, self_scale, out_indptr, out_indices, out_edge_scale = ctx.saved_tensors
    if out_indptr is None:
        raise InputError("the gradient of a sum over edges needs the transposed lists", "Give out_indptr and out_indices.")
    grad_x = torch.ops.strata.sum_over_edges(
        grad,
        out_indptr,
        out_indices,
        out_edge_scale,
        col_scale,
        row_scale,
        self_scale,
        indptr,
        indices,
        edge_scale,
        ctx.skips_loops,
    )
    return (grad_x,) + (None,) * 10


sum_over_edges.register_autograd(_grad_of_sum, setup_context=_keep_sum)


@custom_op("strata::inverse_counts", mutates_args=())
def inverse_counts(indptr: Tensor) -> Tensor:
    """1 / the number of edges of each destination, 0 without edges; float32 [D]."""
    inverse = indptr.new_empty(indptr.shape[0] - 1, dtype=torch.float32)
    _kernels.inverse_counts(_array(indptr), inverse, _stream(indptr))
    return inverse


@inverse_counts.register_fake
def _(indptr: Tensor) -> Tensor:
    return indptr.new_empty(indptr.shape[0] - 1, dtype=torch.float32)


@custom_op("strata::join_sums", mutates_args=())
def join_sums(
    x: Tensor,
    indptr: Tensor,
    indices: Tensor,
    row_scale: Optional[Tensor],
    out_indptr: Optional[Tensor],
    out_indices: Optional[Tensor],
) -> Tensor:
    """out[v] = [row_scale[v] * sum over edges (u, v) of x[u] | x[v]], in x's dtype, [D, 2 F].

    x [S, F] float32 or bfloat16, S >= D; row_scale float32 [D], ones where None. Differentiable in x.
    """
    out = x.new_empty(indptr.shape[0] - 1, 2 * x.shape[1])
    _kernels.join_sums(indptr, indices, _array(x), _maybe(row_scale), out, _stream(x))
    return out


@join_sums.register_fake
def _(x: Tensor, indptr: Tensor, *others: Any) -> Tensor:
    return x.new_empty(indptr.shape[0] - 1, 2 * x.shape[1])


@custom_op("strata::join_sums_grad", mutates_args=())
def join_sums_grad(
    grad: Tensor, indptr: Tensor, indices: Tensor, row_scale: Optional[Tensor], out_indptr: Tensor, out_indices: Tensor
) -> Tensor:
    """The gradient of join_sums' x [S, F], from that of its result."""
    grad_x = grad.new_empty(out_indptr.shape[0] - 1, grad.shape[1] // 2)
    _kernels.join_sums_grad(out_indptr, out_indices, _array(grad), _maybe(row_scale), grad_x, _stream(grad))
    return grad_x


@join_sums_grad.register_fake
def _(
    grad: Tensor, indptr: Tensor, indices: Tensor, row_scale: Optional[Tensor], out_indptr: Tensor, out_indices: Tensor
) -> Tensor:
    return grad.new_empty(out_indptr.shape[0] - 1, grad.shape[1] // 2)


def _keep_lists(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _grad_of_join(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    if ctx.saved_tensors[-1] is None:
        raise InputError("the gradient of joined sums needs the transposed lists", "Give out_indptr and out_indices.")
    return (torch.ops.strata.join_sums_grad(grad, *ctx.saved_tensors),) + (None,) * 5


def _grad_of_join_grad(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return (torch.ops.strata.join_sums(grad, *ctx.saved_tensors),) + (None,) * 5


join_sums.register_autograd(_grad_of_join, setup_context=_keep_lists)
join_sums_grad.register_autograd(_grad_of_join_grad, setup_context=_keep_lists)


@custom_op("strata::max_over_edges", mutates_args=())
def max_over_edges(
    x: Tensor, indptr: Tensor, indices: Tensor, out_indptr: Optional[Tensor], out_indices: Optional[Tensor]
) -> tuple[Tensor, Tensor]:
    """(largest value of the in-neighbors per column [D, F], the neighbor that has it int32 [D, F]); 0 and -1 without any.

    x [S, F] float32. Differentiable in x: the first neighbor that attains the maximum gets the whole gradient.
    """
    rows, cols = indptr.shape[0] - 1, x.shape[1]
    out, winners = x.new_empty(rows, cols), x.new_empty(rows, cols, dtype=torch.int32)
    _kernels.max_over_edges(indptr, indices, _array(x), out, winners, _stream(x))
    return out, winners


@max_over_edges.register_fake
def _(x: Tensor, indptr: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    rows, cols = indptr.shape[0] - 1, x.shape[1]
    return x.new_empty(rows, cols), x.new_empty(rows, cols, dtype=torch.int32)


@custom_op("strata::max_over_edges_grad", mutates_args=())
def max_over_edges_grad(grad: Tensor, winners: Tensor, out_indptr: Tensor, out_indices: Tensor) -> Tensor:
    grad_x = grad.new_empty(out_indptr.shape[0] - 1, grad.shape[1])
    _kernels.max_over_edges_grad(out_indptr, out_indices, winners, _array(grad), grad_x, _stream(grad))
    return grad_x


@max_over_edges_grad.register_fake
def _(grad: Tensor, winners: Tensor, out_indptr: Tensor, out_indices: Tensor) -> Tensor:
    return grad.new_empty(out_indptr.shape[0] - 1, grad.shape[1])


def _keep_max(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], *inputs[3:])


def _grad_of_max(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    winners, out_indptr, out_indices = ctx.saved_tensors
    if out_indptr is None:
        raise InputError("the gradient of a maximum over edges needs the transposed lists", "Give out_indptr and out_indices.")
    return torch.ops.strata.max_over_edges_grad(grad, winners, out_indptr, out_indices), None, None, None, None


max_over_edges.register_autograd(_grad_of_max, setup_context=_keep_max)


@custom_op("strata::score_heads", mutates_args=())
def score_heads(rows: Tensor, weights: Tensor) -> Tensor:
    """[N, H] dot products of rows [N, H * C] and weights [H, C]; float32."""
    scores = rows.new_empty(rows.shape[0], weights.shape[0])
    _kernels.score_heads(_array(rows), _array(weights), scores, _stream(rows))
    return scores


@score_heads.register_fake
def _(rows: Tensor, weights: Tensor) -> Tensor:
    return rows.new_empty(rows.shape[0], weights.shape[0])


def _weight_grad(rows: Tensor, grad_scores: Tensor, weights: Tensor) -> Tensor:
    by_head = rows.view(-1, *weights.shape).transpose(0, 1)
    return torch.bmm(grad_scores.t().unsqueeze(1), by_head).squeeze(1)


def _keep_scores(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _grad_of_scores(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    rows, weights = ctx.saved_tensors
    grad_rows = (grad.unsqueeze(2) * weights).flatten(1) if ctx.needs_input_grad[0] else None
    return grad_rows, _weight_grad(rows.contiguous(), grad, weights) if ctx.needs_input_grad[1] else None


score_heads.register_autograd(_grad_of_scores, setup_context=_keep_scores)


@custom_op("strata::attend_over_edges", mutates_args=())
def attend_over_edges(
    rows: Tensor,
    src_weights: Optional[Tensor],
    dst_weights: Optional[Tensor],
    src_scores: Tensor,
    dst_scores: Tensor,
    indptr: Tensor,
    indices: Tensor,
    out_indptr: Optional[Tensor],
    out_indices: Optional[Tensor],
    slope: float,
    self_loops: bool,
    dropout: float,
    key: Optional[Tensor],
    ids: Optional[Tensor],
) -> tuple[Tensor, Tensor]:
    """(sum of the in-neighbors' rows by their attention [D, H * C], log of the softmax's denominators [D, H]).

    rows [S, H * C] float32 or bfloat16, as is the sum; all others are float32. src_scores are score_heads(rows, src_weights);
    dst_scores are score_heads(rows[:D], dst_weights), or of anything where dst_weights is None, and so are src_scores.
    Differentiable in rows and the weights, with what comes through the scores, and in scores that have no weights. With `self_loops`, a destination that is a source attends to itself once.
    `dropout` needs key int64 [2], which decides what is dropped, and ids int64 [max(S, D)].
    """
    of = _array(rows)
    out = of.new_empty(indptr.shape[0] - 1, of.shape[1])
    log_sums = torch.empty_like(dst_scores, memory_format=torch.contiguous_format)
    over = _kernels.Attention(indptr, indices, of, _array(src_scores), _array(dst_scores), slope, self_loops, dropout, key, ids)
    _kernels.attend_over_edges(over, log_sums, out, _stream(of))
    return out, log_sums


@attend_over_edges.register_fake
def _(
    rows: Tensor, src_weights: Any, dst_weights: Any, src_scores: Any, dst_scores: Tensor, indptr: Tensor, *others: Any
) -> tuple[Tensor, Tensor]:
    return rows.new_empty(indptr.shape[0] - 1, rows.shape[1]), torch.empty_like(
        dst_scores, memory_format=torch.contiguous_format
    )


@custom_op("strata::attend_over_edges_grad", mutates_args=())
def attend_over_edges_grad(
    grad: Tensor,
    log_sums: Tensor,
    rows: Tensor,
    src_weights: Optional[Tensor],
    dst_weights: Optional[Tensor],
    src_scores: Tensor,
    dst_scores: Tensor,
    indptr: Tensor,
    indices: Tensor,
    out_indptr: Tensor,
    out_indices: Tensor,
    slope: float,
    self_loops: bool,
    dropout: float,
    key: Optional[Tensor],
    ids: Optional[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of rows [S, H * C], src_scores [S, H] and dst_scores [D, H]."""
    of, src_scores, dst_scores = _array(rows), _array(src_scores), _array(dst_scores)
    grad_rows, grad_src, grad_dst = torch.empty_like(of), torch.empty_like(src_scores), torch.empty_like(dst_scores)
    over = _kernels.Attention(indptr, indices, of, src_scores, dst_scores, slope, self_loops, dropout, key, ids)
    _kernels.attend_over_edges_grad(
        over,
        out_indptr,
        out_indices,
        log_sums,
        _maybe(src_weights),
        _maybe(dst_weights),
        _array(grad),
        torch.empty_like(dst_scores),
        grad_src,
        grad_dst,
        grad_rows,
        _stream(of),
    )
    return grad_rows, grad_src, grad_dst


@attend_over_edges_grad.register_fake
def _(
    grad: Tensor,
    log_sums: Any,
    rows: Tensor,
    src_weights: Any,
    dst_weights: Any,
    src_scores: Tensor,
    dst_scores: Tensor,
    *others: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    def make(like: Tensor) -> Tensor:
        return torch.empty_like(like, memory_format=torch.contiguous_format)

    return make(rows), make(src_scores), make(dst_scores)


def _keep_attention(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.slope, ctx.self_loops, ctx.dropout, key, ids = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors, key, ids, output[1])


def _grad_of_attention(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    *tensors, key, ids, log_sums = ctx.saved_tensors
    rows, src_weights, dst_weights, _src_scores, dst_scores, _indptr, _indices, out_indptr, _out_indices = tensors
    if out_indptr is None:
        raise InputError("the gradient of attention needs the transposed lists", "Give out_indptr and out_indices.")
    grad_rows, grad_src, grad_dst = torch.ops.strata.attend_over_edges_grad(
        grad, log_sums, *tensors, ctx.slope, ctx.self_loops, ctx.dropout, key, ids
    )
    rows = rows.contiguous()
    grad_src_weights = None if src_weights is None else _weight_grad(rows, grad_src, src_weights)
    grad_dst_weights = None if dst_weights is None else _weight_grad(rows[: dst_scores.shape[0]], grad_dst, dst_weights)
    of_scores = grad_src if src_weights is None else None, grad_dst if dst_weights is None else None
    return (grad_rows, grad_src_weights, grad_dst_weights, *of_scores) + (None,) * 9


attend_over_edges.register_autograd(_grad_of_attention, setup_context=_keep_attention)
