# SPDX-License-Identifier: Apache-2.0
"""Inputs of layers: checked, and refused where a layer does not support them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from strata.errors import InputError
from strata.batches import Block
from strata.nn.edges import EdgeLists, Edges, lists_of

Features = Union[Tensor, tuple[Tensor, Optional[Tensor]]]

_DTYPES = (torch.float32, torch.bfloat16)
# Arguments of torch_geometric's MessagePassing, with the only values that mean the same here.
_OF_MESSAGE_PASSING = {
    "aggr": ("add", "sum"),
    "aggr_kwargs": (None,),
    "flow": ("source_to_target",),
    "node_dim": (-2, 0),
    "decomposed_layers": (1,),
}


def refuse(layer: str, argument: str, value: Any, remedy: str) -> InputError:
    return InputError(f"{layer}({argument}={value!r}) is not possible", remedy)


def check_others(layer: str, others: Mapping[str, Any]) -> None:
    """Refuses arguments of torch_geometric's MessagePassing that would change something."""
    for name, value in others.items():
        if name not in _OF_MESSAGE_PASSING:
            raise TypeError(f"{layer}() got an unexpected keyword argument {name!r}")
        if value not in _OF_MESSAGE_PASSING[name]:
            raise refuse(layer, name, value, "Take torch_geometric's layer for it, or leave it out.")


def check_channels(layer: str, argument: str, channels: Any) -> None:
    for count in channels if isinstance(channels, tuple) else (channels,):
        if not isinstance(count, int) or count < 1:
            raise refuse(layer, argument, channels, "Give positive numbers; none is found out from the first input.")


class Inputs(NamedTuple):
    x_src: Tensor  # [num_src, F]
    apart: Tensor | None  # [num_dst, F'], where the destinations' rows were given by themselves
    lists: EdgeLists
    shared: bool  # whether they are the first rows of x_src

    @property
    def x_dst(self) -> Tensor | None:
        """[num_dst, F']; made when it is read, since layers that take both at once need no view of it."""
        if not self.shared:
            return self.apart
        num_dst = self.lists.num_dst
        return self.x_src if num_dst == self.lists.num_src else self.x_src[:num_dst]


def inputs_of(
    layer: str, x: Features, edges: Edges, size: tuple[int, int] | None = None, columns: int | tuple[int, int] | None = None
) -> Inputs:
    """Features and edges as a layer takes them; both may be of a bipartite graph. `columns` are the layer's in_channels."""
    x_src, x_dst = x if isinstance(x, (tuple, list)) else (x, None)
    of_src, of_dst = columns if isinstance(columns, tuple) else (columns, columns)
    x_src = _checked_rows(layer, "x", x_src, of_src)
    if x_dst is not None:
        x_dst = _checked_rows(layer, "x_dst", x_dst, of_dst)
    shared = isinstance(x, Tensor)
    num_src, num_dst = x_src.shape[0], _num_dst(layer, x, edges, size)
    if size is not None and tuple(size) != (num_src, num_dst):
        raise InputError(f"{layer}: size is {tuple(size)}, x has {num_src} sources and {num_dst} destinations")
    if shared and num_dst > num_src:
        raise InputError(f"{layer}: x has {num_src} rows, its edges {num_dst} destinations", "Give (x_src, x_dst).")
    lists = lists_of(edges, num_src, num_dst)
    if lists.indptr.device != x_src.device:
        raise InputError(f"{layer}: x lies on {x_src.device}, its edges on {lists.indptr.device}", "Move them to one device.")
    return Inputs(x_src, x_dst, lists, shared)


def _num_dst(layer: str, x: Features, edges: Edges, size: tuple[int, int] | None) -> int:
    if isinstance(edges, (Block, EdgeLists)):
        num_dst = edges.num_dst
    elif size is not None:
        num_dst = size[1]
    elif isinstance(x, Tensor):
        return x.shape[0]
    else:
        return (x[0] if x[1] is None else x[1]).shape[0]
    if not isinstance(x, Tensor) and x[1] is not None and x[1].shape[0] != num_dst:
        raise InputError(f"{layer}: x_dst has {x[1].shape[0]} rows, its edges {num_dst} destinations")
    return num_dst


def _checked_rows(layer: str, name: str, rows: Any, columns: int | None) -> Tensor:
    """The rows as float32 or bfloat16; under autocast layers are given what the ones before them made."""
    if not isinstance(rows, Tensor) or rows.dim() != 2:
        kind = f"a tensor of shape {list(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        remedy = "Give [nodes, columns], or a pair of them for sources and destinations."
        if isinstance(rows, (Block, EdgeLists)):
            remedy = "Swap the arguments: layer(x, block). Layers of strata.dgl.nn take DGL's order, layer(block, x)."
        raise InputError(f"{layer}: {name} is {kind}", remedy)
    rows = without_half(rows)
    if rows.dtype not in _DTYPES:
        raise InputError(f"{layer}: {name} is {rows.dtype}", "Convert it to float32 or bfloat16.")
    if columns is not None and rows.shape[1] != columns:
        raise InputError(
            f"{layer}: {name} has {rows.shape[1]} columns, the layer takes {columns}",
            "Make the layer for as many: in_channels.",
        )
    checked: Tensor = rows
    return checked


def without_half(rows: Tensor) -> Tensor:
    """Under autocast layers are given what the ones before them made, which kernels take as float32 if it is float16."""
    return rows.float() if rows.dtype == torch.float16 and torch.is_autocast_enabled(rows.device.type) else rows


def as_product(rows: Tensor) -> Tensor:
    """In the type that products have under autocast, if that is on."""
    kind = rows.device.type
    return rows.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else rows


def needs_grad(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
