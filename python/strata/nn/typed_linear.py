# SPDX-License-Identifier: Apache-2.0
"""Linear maps with weights of their own for each type, by one grouped product for all types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from strata.batches import Block
from strata._arrays import on_device
from strata.errors import InputError
from strata.nn import ops
from strata.nn._inputs import as_product, check_channels, needs_grad, refuse, without_half
from strata.nn._linear import reset_glorot, reset_module
from strata.nn.edges import EdgeLists, lists_of
from strata.nn.relations import ALIGNED, NodesByRelation, check_types
from strata.nn.sage import sum_of_neighbors


def of_types(types: Tensor, table: Tensor) -> Tensor:
    """table[types], [N, ...]: as a product with ones and zeros, because its gradient is a product, too, which adds up in parallel."""
    chosen = types.unsqueeze(1) == torch.arange(len(table), device=types.device)
    return chosen.to(table.dtype) @ table


def map_by_type(x: Tensor, by_type: NodesByRelation, weights: Tensor) -> Tensor:
    """x[v] @ weights[type of v] of the first nodes of x, [nodes, out]; weights [T, in, out]."""
    rows = sum_of_neighbors(x, by_type.lists_of_rows(x.shape[0]))
    return sum_of_neighbors(ops.grouped_product(rows, weights.to(rows.dtype), by_type.ends), by_type.lists_of_nodes())


def only_neighbors(rows: EdgeLists) -> Tensor:
    """The node of each row, which has it as its only neighbor; empty ones have any node."""
    return rows.indices[rows.indptr[:-1].clamp(max=max(0, len(rows.indices) - 1))]


def rows_of_pairs(x: Tensor, sources: EdgeLists) -> Tensor:
    """The row of each pair's node. Empty pairs have that of any: nothing may read what is made of it, so that its gradient is 0."""
    return sum_of_neighbors(x, sources) if needs_grad(x) else x.index_select(0, only_neighbors(sources))


def nodes_by_type(block: Block, num_nodes: int) -> NodesByRelation:
    """The first nodes of a block's sources, sorted by type; made once per block."""
    assert block.types is not None
    types = block.types

    def make() -> NodesByRelation:
        nodes = torch.arange(num_nodes, device=types.of_nodes.device)
        return NodesByRelation(types.of_nodes[:num_nodes], nodes, num_nodes, len(types.node_types), 1)

    return lists_of(block, block.num_src, block.num_dst).once(f"types of {num_nodes} nodes", make)


def map_each(parts: Sequence[Tensor], weights: Tensor, biases: Tensor | None) -> list[Tensor]:
    """parts[t] @ weights[t] + biases[t] for all t; parts [N_t, in], weights [T, in, out]."""
    sizes = [size for part in parts for size in (len(part), -len(part) % ALIGNED)]
    parts = [without_half(part) for part in parts]
    nothing = parts[0].new_zeros(ALIGNED, parts[0].shape[1])
    rows = torch.cat([piece for part in parts for piece in (part, nothing[: -len(part) % ALIGNED])])
    padded = on_device([len(part) + -len(part) % ALIGNED for part in parts], rows.device)
    out = ops.grouped_product(rows, weights.to(rows.dtype), padded.cumsum(0).int())
    if biases is not None:
        types = torch.repeat_interleave(torch.arange(len(parts), device=rows.device), padded, output_size=len(rows))
        out = out + of_types(types, biases.to(out.dtype))
    # The gradient of split() is one concatenation.
    return list(torch.split(as_product(out), sizes))[::2]


class HeteroLinear(torch.nn.Module):
    """torch_geometric.nn.HeteroLinear: x[i] @ weight[type of i] + bias[type of i], by one product for all types.

    Args:
        in_channels, out_channels: columns of x and of the result.
        num_types: their number; type_vec counts from 0.
        is_sorted: taken, without effect.
        bias: whether there is a bias for each type.
        weight_initializer: None (as torch.nn.Linear begins) or "glorot".
    """

    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_types: int,
        is_sorted: bool = False,
        bias: bool = True,
        weight_initializer: str | None = None,
    ) -> None:
        super().__init__()
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels), ("num_types", num_types)):
            check_channels("HeteroLinear", name, count)
        if weight_initializer not in (None, "glorot"):
            raise refuse("HeteroLinear", "weight_initializer", weight_initializer, 'Choose None or "glorot".')
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_types = num_types
        self.is_sorted = is_sorted
        self.weight_initializer = weight_initializer
        self.weight = torch.nn.Parameter(torch.empty(num_types, in_channels, out_channels))
        self.register_parameter("bias", torch.nn.Parameter(torch.empty(num_types, out_channels)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as torch_geometric's layer does."""
        bound = 1 / math.sqrt(self.in_channels)
        if self.weight_initializer == "glorot":
            reset_glorot(self.weight)
        else:
            torch.nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            torch.nn.init.uniform_(self.bias, -bound, bound)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # lengths depend on data
    def forward(self, x: Tensor, type_vec: Tensor) -> Tensor:
        """[N, out_channels] of x [N, in_channels], float32 or bfloat16, and the types of its rows, int64 [N]."""
        if type_vec.shape != x.shape[:1] or x.shape[1:] != (self.in_channels,):
            raise InputError(
                f"HeteroLinear: x has the shape {list(x.shape)}, type_vec {list(type_vec.shape)}",
                f"Give x [N, {self.in_channels}] and the type of each row, int64 [N].",
            )
        types = type_vec.long()
        check_types("type_vec has types", types, self.num_types)
        nodes = torch.arange(len(x), device=x.device)
        out = map_by_type(without_half(x), NodesByRelation(types, nodes, len(x), self.num_types, 1), self.weight)
        return as_product(out if self.bias is None else out + of_types(types, self.bias.to(out.dtype)))

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.in_channels}, {self.out_channels}, num_types={self.num_types}, bias={self.bias is not None}"


class HeteroDictLinear(torch.nn.Module):
    """torch_geometric.nn.HeteroDictLinear: a torch.nn.Linear for each type; by one product where all types have as many columns.

    Args:
        in_channels: columns of x of each type, or of all.
        out_channels: columns of the results.
        types: the names of the types, if in_channels is a number.
        bias: whether the maps have a bias.
    """

    def __init__(
        self, in_channels: int | Mapping[str, int], out_channels: int, types: Sequence[str] | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        if not isinstance(in_channels, Mapping):
            if types is None:
                raise InputError(
                    "HeteroDictLinear has no types", 'Name them: types=["paper", "author"], or in_channels={"paper": 128}.'
                )
            in_channels = dict.fromkeys(types, in_channels)
        for count in (*in_channels.values(), out_channels):
            check_channels("HeteroDictLinear", "in_channels" if count != out_channels else "out_channels", count)
        self.types = list(in_channels)
        self.in_channels = dict(in_channels)
        self.out_channels = out_channels
        self.lins = torch.nn.ModuleDict(
            {key_of(kind): torch.nn.Linear(count, out_channels, bias=bias) for kind, count in in_channels.items()}
        )

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as torch_geometric's layer does."""
        for linear in self.lins.values():
            reset_module(linear)

    def weights(self) -> tuple[Tensor, Tensor | None]:
        """([T, in, out], [T, out]) of all types, which have as many columns."""
        linears: list[Any] = list(self.lins.values())
        biases = None if linears[0].bias is None else torch.stack([linear.bias for linear in linears])
        return torch.stack([linear.weight for linear in linears]).transpose(1, 2), biases

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # lengths depend on data
    def forward(self, x_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """[n, out_channels] of each type that x_dict has. Parameters of others have gradients of 0, if all have as many columns."""
        given = [kind for kind in self.types if kind in x_dict]
        if not given:
            return {}
        if len(set(self.in_channels.values())) > 1:
            return {kind: self.lins[key_of(kind)](x_dict[kind]) for kind in given}
        nothing = x_dict[given[0]][:0]
        mapped = map_each([x_dict.get(kind, nothing) for kind in self.types], *self.weights())
        return {kind: out for kind, out in zip(self.types, mapped) if kind in x_dict}

    def extra_repr(self) -> str:
        """The text in brackets where the layer is printed."""
        return f"{self.in_channels}, {self.out_channels}"


def key_of(name: str) -> str:
    """The name of a type as PyG's dicts of modules and parameters have it."""
    taken = set(dir(torch.nn.ModuleDict)) | set(dir(torch.nn.ParameterDict))
    return (f"<{name}>" if name in taken else name).replace(".", "#")
