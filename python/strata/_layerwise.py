# SPDX-License-Identifier: Apache-2.0
"""Inference layer by layer: all nodes, each with all of its neighbors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strata._process import process
from strata._ranks_of_torch import Ranks
from strata._user_models import Call, Edges, Pieces, are_close, edge_values_of
from strata.batches import Block
from strata.errors import InputError
from strata.loaders import NodeLoader
from strata.unified_tensor import unified

if TYPE_CHECKING:
    from strata.graph import Graph

# Layers that scale by degrees of both ends of an edge, which a node's own in-edges do not tell.
_SCALED_BY_DEGREES = ("GCNConv", "GCN2Conv", "LGConv")
# Layers of torch_geometric that save work when destinations are given apart from sources.
_TAKES_PAIRS = ("SAGEConv", "GINConv", "GraphConv")
_TRIED = 64  # rows on which the model is run to find its first layer
_WHOLE = "Compute the graph as a whole, model(x, edge_index), or by batches of NeighborLoader(graph, [-1, -1], None)."


def infer(model: torch.nn.Module, graph: Graph, form: str, batch_size: int, num_layers: int | None, ranks: Ranks) -> Tensor:
    """strata.inference() within a group of ranks, of a model that is wrapped in nothing."""
    model.to(process().device)
    with _evaluated(model), torch.no_grad():
        return _Inference(model, graph, form, batch_size, num_layers, ranks).run()


@contextmanager
def _evaluated(model: torch.nn.Module) -> Iterator[None]:
    """In evaluation mode; afterwards each module is again as it was."""
    were = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in were:
            module.training = training


class _Inference:
    def __init__(
        self, model: torch.nn.Module, graph: Graph, form: str, batch_size: int, num_layers: int | None, ranks: Ranks
    ) -> None:
        self._graph = graph
        self._ranks = ranks
        self._values = edge_values_of(model, graph) if form == "merged" else {}
        self._pieces = Pieces(model, form, self._values, num_layers)
        self._loader = NodeLoader(graph, None, fanouts=[-1], batch_size=batch_size, features=True, transposes=False)
        self._roots: dict[Any, Tensor] = {}  # of degrees, by what they are made of

    def run(self) -> Tensor:
        if self._graph.num_features == 0:
            raise InputError("the graph has no features", "Give it some: from_tensors(edge_index, x).")
        try:
            with self._pieces.intercepted():
                return self._layers()
        finally:
            self._loader.close()

    def _batches(self) -> Iterator[tuple[Block, Tensor]]:
        """The blocks of this rank's nodes, in the same order each time, and the features of their sources."""
        self._loader.set_epoch(0)
        for batch, x, _ in self._loader:
            if batch.blocks[0].num_dst:
                yield batch.blocks[0], x

    def _layers(self) -> Tensor:
        kept: list[list[Tensor]] = []  # by layer, by batch: results of this rank's nodes, for what the model does with them later
        call, rows = self._first()
        while call is not None:
            kept.append(self._results_of(call, rows))
            call, rows = self._next(kept)
        if not kept:
            raise InputError("no layer of the model is called with the edges that it is given", _WHOLE)
        return rows[0]

    def _first(self) -> tuple[Call | None, list[Tensor]]:
        """The same as _next() of the first layer, which may take the features as they are: then no rows are kept."""
        x = torch.randn((_TRIED, self._graph.num_features), generator=torch.Generator().manual_seed(0)).to(process().device)
        call, rows = self._pieces.run(x, [])
        self._pieces.check_rows(x, [], call, rows)
        return (call, []) if call is None or call.takes_features else self._next([])

    def _next(self, kept: list[list[Tensor]]) -> tuple[Call | None, list[Tensor]]:
        """The model up to its next layer, or to its end: the call of that layer, and the rows of all nodes that it takes."""
        call: Call | None = None
        found: list[list[Tensor]] = []
        own: list[Tensor] = []
        for number, (block, x) in enumerate(self._batches()):
            results = [of_layer[number].to(x.device) for of_layer in kept]
            reached, rows = self._pieces.run(x[: block.num_dst], results)
            if number == 0:
                self._pieces.check_rows(x[: block.num_dst], results, reached, rows)
                call = reached
            found.append([row.cpu() for row in rows])
            own.append(block.src_nodes[: block.num_dst].cpu())
        call = self._ranks.first_of(call)
        count = max(self._ranks.each(len(found[0]) if found else 0))
        return call, [self._of_all([rows[i] for rows in found], own) for i in range(count)]

    def _of_all(self, rows: list[Tensor], nodes: list[Tensor]) -> Tensor:
        """Rows of all nodes, in host memory, of those that this rank made for some."""
        ids = self._ranks.each(torch.cat(nodes) if nodes else torch.empty(0, dtype=torch.int64))
        return self._ranks.rows_of(rows, ids, self._graph.num_nodes)

    def _results_of(self, call: Call, rows: list[Tensor]) -> list[Tensor]:
        """The layer's results for this rank's nodes, by batch."""
        results = []
        held: list[Any] = [unified(whole) if process().device.startswith("cuda") else whole for whole in rows]
        module = self._pieces.module_of(call)
        roots = self._roots_of(module, call) if _is_scaled(module) else None
        self._is_checked = self._pieces.form == "blocks"
        for block, x in self._batches():
            given = [x] if call.takes_features else [whole[block.src_nodes] for whole in held]
            edges = Edges.of_block(block, self._graph, self._values)
            if roots is not None:
                result = _scaled(self._pieces, call, given, edges, roots[block.src_nodes.cpu()].to(x.device))
            else:
                result = self._plain(call, given, edges)
            if not isinstance(result, Tensor):
                raise InputError(f"{_name_of(call, self._pieces)} gives a {type(result).__name__}, not a tensor", _WHOLE)
            results.append(result[: block.num_dst].cpu())
        return results

    def _plain(self, call: Call, given: list[Tensor], edges: Edges) -> Any:
        module = self._pieces.module_of(call)
        if self._pieces.form == "blocks":
            return self._pieces.call(call, given, edges)
        if not self._is_checked:
            self._check_hop(call, given, edges)
        ours = type(module).__module__.startswith("strata.nn")
        if ours:
            return self._pieces.call(call, given, edges.with_block_for_edge_index())
        if type(module).__name__ in _TAKES_PAIRS and call.has_one_x and not isinstance(getattr(module, "in_channels", None), tuple):
            return self._pieces.call(call, given, edges, pair=True)
        return self._pieces.call(call, given, edges)

    def _check_hop(self, call: Call, given: list[Tensor], edges: Edges) -> None:
        """Edges to other nodes must not change a node's result."""
        block = edges.block
        if block.num_src == block.num_dst:
            return
        self._is_checked = True
        alone = self._pieces.call(call, given, edges)
        beside = self._pieces.call(call, given, edges.with_more())
        if isinstance(alone, Tensor) and not are_close(alone[: block.num_dst], beside[: block.num_dst]):
            raise InputError(
                f"{_name_of(call, self._pieces)} looks at more than the in-edges of a node: at degrees or neighbors of its neighbors",
                _WHOLE,
            )

    def _roots_of(self, module: torch.nn.Module, call: Call) -> Tensor:
        """degree^-1/2 of all nodes, float32 [num_nodes]."""
        loops, improved = _loops_of(module)
        key = (loops, improved, call.takes("edge_weight"))
        if key not in self._roots:
            own, found = [], []
            for block, _ in self._batches():
                edges = Edges.of_block(block, self._graph, self._values)
                edge_index, weights = _with_loops(edges, call, loops, improved)
                degrees = torch.zeros(block.num_src, device=weights.device).index_add_(0, edge_index[1], weights)[: block.num_dst]
                root = degrees.pow(-0.5)
                found.append(root.masked_fill(root == torch.inf, 0.0).cpu())
                own.append(block.src_nodes[: block.num_dst].cpu())
            self._roots[key] = self._of_all(found, own)
        return self._roots[key]


def _name_of(call: Call, pieces: Pieces) -> str:
    kind = type(pieces.module_of(call)).__name__
    return f"the model's layer {call.name}, {kind}," if call.name else kind


def _is_scaled(module: torch.nn.Module) -> bool:
    return type(module).__name__ in _SCALED_BY_DEGREES and bool(getattr(module, "normalize", False))


def _loops_of(module: torch.nn.Module) -> tuple[bool, bool]:
    return bool(getattr(module, "add_self_loops", False)), bool(getattr(module, "improved", False))


def _with_loops(edges: Edges, call: Call, loops: bool, improved: bool) -> tuple[Tensor, Tensor]:
    """Edges and weights as torch_geometric's gcn_norm makes them: a loop for each destination, with the weight of one that it has."""
    edge_index = edges.edge_index
    given = edges.values.get("edge_weight") if call.takes("edge_weight") else None
    weights = torch.ones(edge_index.shape[1], device=edge_index.device) if given is None else given.float().view(-1)
    if not loops:
        return edge_index, weights
    num_dst = edges.block.num_dst
    of_loops = weights.new_full((num_dst,), 2.0 if improved and given is not None else 1.0)
    is_loop = edge_index[0] == edge_index[1]
    if given is not None:
        of_loops[edge_index[0][is_loop]] = weights[is_loop]
    nodes = torch.arange(num_dst, device=edge_index.device)
    return torch.cat([edge_index[:, ~is_loop], torch.stack([nodes, nodes])], dim=1), torch.cat([weights[~is_loop], of_loops])


def _scaled(pieces: Pieces, call: Call, given: Sequence[Tensor], edges: Edges, roots: Tensor) -> Any:
    """A layer that scales by degrees, with the scales of the whole graph as weights."""
    module: Any = pieces.module_of(call)
    edge_index, weights = _with_loops(edges, call, *_loops_of(module))
    weights = roots[edge_index[0]] * weights * roots[edge_index[1]]
    were = {name: getattr(module, name) for name in ("normalize", "add_self_loops") if hasattr(module, name)}
    vars(module).update(dict.fromkeys(were, False))
    try:
        return pieces.call(call, given, edges.scaled(edge_index, weights))
    finally:
        vars(module).update(were)
