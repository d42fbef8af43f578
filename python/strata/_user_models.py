# SPDX-License-Identifier: Apache-2.0
"""A user's model as a sequence of layers, and of code between them that works on each row by itself.

Layers are the submodules that the model calls with the edges it is given. The rest is run for some nodes at a time, with edges
that stand for the real ones: at each layer that has been computed the model is handed its results, and at the next it is left.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strata._attributes import HeldRows
from strata.batches import Block
from strata.errors import InputError

if TYPE_CHECKING:
    from strata.graph import Graph

FORMS = ("merged", "blocks")
_OF_EDGES = ("edge_index", "edges", "adj_t", "adj")
_EDGE_VALUES = ("edge_weight", "edge_attr")


def unwrapped(model: Any) -> torch.nn.Module:
    """The user's module within DistributedDataParallel and torch.compile."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"the model is a {type(model).__name__}; give a torch.nn.Module")
    inner = getattr(model, "_orig_mod", None) or (model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else None)
    return model if inner is None else unwrapped(inner)


def _arguments_of(model: torch.nn.Module) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(model.forward).parameters


def form_of_model(model: torch.nn.Module, given: str | None) -> str:
    """"merged", for model(x, edge_index), or "blocks", for model(x, blocks): as given, or by the names of forward()'s arguments."""
    if given is not None:
        if given not in FORMS:
            raise InputError(f"batches={given!r} is not possible", 'Give "merged", for model(x, edge_index), or "blocks", for model(x, blocks).')
        return given
    names = list(_arguments_of(model))
    second = names[1] if len(names) > 1 else ""
    if second == "blocks":
        return "blocks"
    if second in _OF_EDGES:
        return "merged"
    raise InputError(
        f"{type(model).__name__}.forward({', '.join(names)}) does not say what it takes: its second argument is called neither edge_index "
        "nor blocks",
        'Give batches="merged" if it is called as model(x, edge_index), or batches="blocks" for model(x, blocks).',
    )


def edge_values_of(model: torch.nn.Module, graph: Graph) -> dict[str, HeldRows]:
    """The graph's edge_weight and edge_attr, as far as the model has arguments of these names and uses them."""
    named = _arguments_of(model)
    wanted = [name for name in _EDGE_VALUES if name in named and getattr(model, f"supports_{name}", True)]
    for name in wanted:
        if named[name].default is inspect.Parameter.empty and name not in graph._attributes.edges:
            raise InputError(f"the model takes {name}, which the graph does not have", f"Give it: from_tensors(..., edge_attrs={{{name!r}: ...}}).")
    return {name: graph._attributes.edges[name] for name in wanted if name in graph._attributes.edges}


@contextmanager
def graph_for(data: Any) -> Iterator[Graph]:
    """A graph of Strata as it is; a graph made of a Data of torch_geometric or a DGLGraph, which is closed in the end."""
    from strata.graph import require_graph
    from strata.objects import _library_of, from_dgl, from_pyg

    library = _library_of(data)
    if library not in ("torch_geometric", "dgl"):
        require_graph(data)
        yield data
        return
    with from_dgl(data) if library == "dgl" else from_pyg(data) as graph:
        yield graph


@dataclasses.dataclass
class Edges:
    """The edges of a call in each form that models take."""

    block: Block
    edge_index: Tensor
    values: dict[str, Tensor]
    as_edge_index: Any = None  # what stands in a call for edge_index; by default that

    @staticmethod
    def of_block(block: Block, graph: Graph, names: Mapping[str, HeldRows]) -> Edges:
        if names and block.edge_ids is None:
            raise InputError("the graph has no ids of edges, by which edge_weight and edge_attr are read", "Load it with edge_ids=True.")
        values = {name: held[block.edge_ids] for name, held in names.items()} if block.edge_ids is not None else {}
        return Edges(block, block.edge_index, values)

    @staticmethod
    def standing_for(num_nodes: int, like: Mapping[str, HeldRows], device: torch.device, some: bool) -> Edges:
        """Edges among so many nodes: none, or `some` between random ones."""
        count = 4 * num_nodes if some else 0
        generator = torch.Generator().manual_seed(0)
        ends = torch.randint(max(1, num_nodes), (2, count), generator=generator)
        ends = ends[:, ends[1].argsort(stable=True)].to(device)
        values = {}
        for name, held in like.items():
            ids = torch.randint(max(1, len(held)), (count,), generator=generator) if len(held) else torch.zeros(0, dtype=torch.int64)
            values[name] = held[ids].to(device)
        indptr = torch.zeros(num_nodes + 1, dtype=torch.int64, device=device)
        indptr[1:] = torch.bincount(ends[1], minlength=num_nodes).cumsum(0)
        nodes = torch.arange(num_nodes, device=device)
        ids = torch.zeros(count, dtype=torch.int64, device=device)
        return Edges(Block(None, indptr, ends[0].int(), ids, nodes, num_nodes, num_nodes), ends, values)

    def with_block_for_edge_index(self) -> Edges:
        return dataclasses.replace(self, as_edge_index=self.block)

    def with_more(self) -> Edges:
        """Further edges to the nodes that are no destinations, from the first destination."""
        others = torch.arange(self.block.num_dst, self.block.num_src, device=self.edge_index.device)
        more = torch.stack([torch.zeros_like(others), others])
        values = {name: torch.cat([held, held[:1].expand(len(others), *held.shape[1:])]) for name, held in self.values.items()}
        return Edges(self.block, torch.cat([self.edge_index, more], dim=1), values)

    def scaled(self, edge_index: Tensor, weights: Tensor) -> Edges:
        """Other edges with these weights, in a call of either form."""
        return Edges(self.block, edge_index, {**self.values, "edge_weight": weights}, as_edge_index=edge_index)


@dataclasses.dataclass(frozen=True)
class _Part:
    """What stands in a call for: rows (`kind` is their number), or "block", "edge_index", "size", the name of values of edges."""

    kind: int | str
    is_of_destinations: bool = False


@dataclasses.dataclass
class Call:
    """A layer's call, with parts in place of rows and edges."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    takes_features: bool  # of the input nodes, as they are, and no other rows

    def takes(self, name: str) -> bool:
        """Whether values of edges are in the call."""
        return _Part(name) in self.arguments or _Part(name) in self.keywords.values()

    @property
    def has_one_x(self) -> bool:
        """Whether it is layer(x, edge_index), without more rows."""
        return self.arguments[:2] == (_Part(0), _Part("edge_index")) and "size" not in self.keywords


class _Reached(BaseException):  # models may catch exceptions
    def __init__(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        super().__init__(name)
        self.call = name, arguments, keywords


class Pieces:
    """A model, run from its input to its next layer, on some nodes at a time."""

    def __init__(self, model: torch.nn.Module, form: str, values: Mapping[str, HeldRows], num_layers: int | None) -> None:
        self.form = form
        self._model = model
        self._values = values
        self._modules = {name: module for name, module in model.named_modules() if _may_be_layer(module, is_root=not name)}
        self._originals: dict[str, Callable[..., Any]] = {}
        self._edges: Edges | None = None  # while the model runs
        self._results: Sequence[Tensor] = ()
        self._calls = 0
        known = sum(_is_known(module) for module in self._modules.values())
        self._num_layers = num_layers or known
        if form == "blocks" and self._num_layers == 0:
            raise InputError("the number of the model's layers is not known", "Give it: num_layers=2.")

    def module_of(self, call: Call) -> torch.nn.Module:
        module: torch.nn.Module = self._modules[call.name]
        return module

    @contextmanager
    def intercepted(self) -> Iterator[None]:
        """While it lasts, run() may be called."""
        were = {name: vars(module).get("forward") for name, module in self._modules.items()}
        for name, module in self._modules.items():
            self._originals[name] = module.forward
            module.forward = self._instead(name, module.forward)
        try:
            yield
        finally:
            for name, module in self._modules.items():
                del vars(module)["forward"]
                if were[name] is not None:
                    module.forward = were[name]

    def _instead(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*arguments: Any, **keywords: Any) -> Any:
            if self._edges is None or not any(self._is_of_edges(value) for value in _values_in((arguments, keywords))):
                return original(*arguments, **keywords)
            self._calls += 1
            if self._calls > len(self._results):
                raise _Reached(name, arguments, keywords)
            return self._results[self._calls - 1]

        return forward

    def _is_of_edges(self, value: Any) -> bool:
        return self._edges is not None and self._name_of(value) is not None

    def _name_of(self, value: Any) -> str | None:
        """The name of the part of the edges that a value in a call is."""
        edges = self._edges
        assert edges is not None
        if value is edges.block:
            return "block"
        if value is edges.edge_index or (isinstance(value, Tensor) and value is edges.block._edge_index):
            return "edge_index"
        return next((name for name, held in edges.values.items() if value is held), None)

    def run(self, x: Tensor, results: Sequence[Tensor], edges: Edges | None = None) -> tuple[Call | None, list[Tensor]]:
        """The model on these rows of features, with the results of its first layers for them.

        Returns the next layer's call and the rows that it takes, or None and the model's result as the only rows.
        """
        self._edges = edges or Edges.standing_for(len(x), self._values, x.device, some=False)
        self._results, self._calls = results, 0
        given = [self._edges.block] * self._num_layers if self.form == "blocks" else self._edges.edge_index
        try:
            out = self._model(x, given, **self._edges.values)
        except _Reached as reached:
            return self._described(*reached.call, x)
        finally:
            self._edges = None
        if not isinstance(out, Tensor) or out.shape[:1] != x.shape[:1]:
            what = f"a tensor of shape {list(out.shape)}" if isinstance(out, Tensor) else f"a {type(out).__name__}"
            raise InputError(f"the model gives {what} for {len(x)} nodes", "It has to give one row per node.")
        return None, [out.float()]

    def _described(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], x: Tensor) -> tuple[Call, list[Tensor]]:
        rows: list[Tensor] = []

        def part(value: Any, is_second: bool = False) -> Any:
            if (of_edges := self._name_of(value)) is not None:
                return _Part(of_edges)
            if isinstance(value, (tuple, list)):
                if len(value) == 2 and all(isinstance(entry, int) and entry == len(x) for entry in value):
                    return _Part("size")
                return type(value)(part(entry, i == 1 and len(value) == 2) for i, entry in enumerate(value))
            if not isinstance(value, Tensor) or isinstance(value, torch.nn.Parameter) or value.shape[:1] != x.shape[:1]:
                return value
            number = next((i for i, held in enumerate(rows) if _are_same(held, value)), len(rows))
            rows[number:] = rows[number:] or [value]
            return _Part(number, is_second)

        described = Call(name, tuple(part(value) for value in arguments), {key: part(value) for key, value in keywords.items()}, False)
        described.takes_features = len(rows) == 1 and _are_same(rows[0], x)
        return described, rows

    def call(self, call: Call, rows: Sequence[Tensor], edges: Edges, pair: bool = False) -> Any:
        """The layer's result for rows of a block's sources and its edges. `pair`: of (x, x of destinations)."""
        num_dst = edges.block.num_dst

        def whole(part: Any) -> Any:
            if isinstance(part, (tuple, list)):
                return type(part)(whole(entry) for entry in part)
            if not isinstance(part, _Part):
                return part
            if isinstance(part.kind, int):
                return rows[part.kind][:num_dst] if part.is_of_destinations else rows[part.kind]
            if part.kind == "size":
                return edges.block.size
            if part.kind in ("block", "edge_index"):
                usual = edges.block if part.kind == "block" else edges.edge_index
                return usual if edges.as_edge_index is None else edges.as_edge_index
            return edges.values[part.kind]

        arguments = [whole(part) for part in call.arguments]
        keywords = {key: whole(part) for key, part in call.keywords.items()}
        if pair:
            arguments[0], keywords["size"] = (arguments[0], arguments[0][:num_dst]), edges.block.size
        original = self._originals[call.name]
        if edges.as_edge_index is not None and "edge_weight" in edges.values:
            bound = inspect.signature(original).bind(*arguments, **keywords)
            bound.arguments["edge_weight"] = edges.values["edge_weight"]
            arguments, keywords = list(bound.args), bound.kwargs
        return original(*arguments, **keywords)

    def check_rows(self, x: Tensor, results: Sequence[Tensor], call: Call | None, rows: Sequence[Tensor]) -> None:
        """Half of the rows, with other edges, must give the same."""
        half = max(1, len(x) // 2)
        edges = Edges.standing_for(half, self._values, x.device, some=True)
        again, found = self.run(x[:half], [result[:half] for result in results], edges)
        same = (again is None) == (call is None) and len(found) == len(rows)
        if not same or not all(are_close(row[:half], other) for row, other in zip(rows, found)):
            where = "before" if not results else "after"
            raise InputError(
                f"{where} its {'first' if len(results) < 2 else f'{len(results)}th'} layer, the model mixes the rows of its nodes, or uses the "
                "edges by itself",
                "Layer by layer, a model can use edges in its layers only, and each row by itself between them. Without norms over all "
                "nodes, the rest can be computed as a whole, model(x, edge_index), or by batches of NeighborLoader.",
            )


def are_close(a: Tensor, b: Tensor) -> bool:
    """Whether they are equal up to the rounding of sums in another order."""
    scale = float(a.abs().max()) if a.numel() else 0.0
    return bool(torch.allclose(a, b, rtol=1e-3, atol=1e-3 * scale, equal_nan=True))


def _values_in(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for entry in value:
            yield from _values_in(entry)
    elif isinstance(value, dict):
        yield from _values_in(list(value.values()))
    else:
        yield value


def _are_same(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype and a.numel() > 0)


def _is_known(module: torch.nn.Module) -> bool:
    """Whether it is a layer of torch_geometric or strata.nn."""
    from strata import nn

    pyg: Any = sys.modules.get("torch_geometric.nn.conv.message_passing")
    ours = (nn.SAGEConv, nn.GCNConv, nn.GATConv, nn.GINConv)
    return isinstance(module, ours) or (pyg is not None and isinstance(module, pyg.MessagePassing))


def _may_be_layer(module: torch.nn.Module, is_root: bool) -> bool:
    """A known layer, or a submodule that contains none."""
    if _is_known(module):
        return True
    return not is_root and not any(_is_known(inner) for inner in module.modules())


def known_layers(model: torch.nn.Module) -> int:
    """The number of layers of torch_geometric and strata.nn in the model."""
    return sum(_is_known(module) for module in model.modules())


def takes_hops(model: torch.nn.Module, num_hops: int) -> bool:
    """Whether the model trims its layers by the numbers of nodes and edges per hop, and has as many layers."""
    names = {"num_sampled_nodes_per_hop", "num_sampled_edges_per_hop"}
    return names <= set(_arguments_of(model)) and getattr(model, "num_layers", num_hops) == num_hops


def mixes_rows(model: torch.nn.Module) -> str:
    """Why padding of a batch would change what the model gives for the others; empty if it would not."""
    for module in model.modules():
        of_pyg = type(module).__module__.startswith("torch_geometric.nn.norm") and getattr(module, "mode", "") != "node"
        if of_pyg or isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            return f"{type(module).__name__} mixes the rows of a batch, of which padding would be some"
    return ""
