# SPDX-License-Identifier: Apache-2.0
"""DGL's samplers and loaders over graphs of Strata."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strata import _arguments
from strata._missing import attributes_of
from strata._process import process
from strata._types import Types
from strata.batches import BlockBatch
from strata.dgl.blocks import NID, Block, to_block
from strata.dgl import negative_sampler as negative_sampler
from strata.dgl.graphs import DGLGraph, check_device, graph_of
from strata.dgl.pairs import EdgePredictionSampler, PairLoader, pair_graphs
from strata.dgl.options import say_what_has_no_effect
from strata.dgl.sampling import Frontier, check_fanout, keyed, sample_neighbors
from strata.dgl.typed_blocks import HeteroBlock
from strata.dgl.typed_graphs import HeteroGraph
from strata.dgl.typed_loaders import HeteroLoader
from strata.dgl.typed_pairs import HeteroPairLoader
from strata.errors import InputError
from strata.graph import Graph
from strata.loaders import NodeLoader, ids_of
from strata.sm_split import SmSplit


class BlockSampler:
    """What blocks a batch has; derive from it for a sampler of one's own.

    Define `sample_frontier(layer, g, seed_nodes)`, which returns the edges of one layer (layer 0 is the farthest from the seeds),
    or, as since DGL 0.8, `sample_blocks(g, seed_nodes, exclude_eids=None)`, which returns (input nodes, output nodes, blocks).

    Args:
        num_layers: how many times sample_frontier() is called.
        return_eids: without effect: blocks have edge ids where the graph has them.
        prefetch_node_feats: a name, under which blocks[0].srcdata has the features of the graph. Of a graph of several types, names
            of its arrays by type of nodes: {"paper": ["x"]}.
        prefetch_labels: a name, under which blocks[-1].dstdata has the labels; or names by type.
    """

    def __init__(
        self,
        num_layers: int | None = None,
        return_eids: bool = False,
        output_ctx: Any = None,
        *,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
    ) -> None:
        if prefetch_edge_feats:
            raise InputError("prefetch_edge_feats is not possible", "Edges have no features in Strata; leave it out.")
        self.num_layers = num_layers
        self.feature_name, self.feats_by_type = _names("prefetch_node_feats", prefetch_node_feats)
        self.label_name, self.labels_by_type = _names("prefetch_labels", prefetch_labels)

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Tensor) -> Frontier:
        """The edges of layer `block_id`, 0 being the farthest from the seeds, to `seed_nodes`, int64 [n] distinct ids."""
        raise NotImplementedError(f"{type(self).__name__} defines neither sample_frontier() nor sample_blocks()")

    def sample_blocks(self, g: Any, seed_nodes: Tensor, exclude_eids: Any = None) -> Any:
        """The blocks of some seeds, the layer farthest from them first."""
        if exclude_eids is not None:
            raise InputError(
                "exclude_eids is not possible", "Leave edges out in sample_frontier(): frontier.remove_edges(positions)."
            )
        if self.num_layers is None:
            raise InputError(f"{type(self).__name__} has no number of layers", "Call super().__init__(num_layers).")
        blocks: list[Block] = []
        for layer in reversed(range(self.num_layers)):
            frontier = self.sample_frontier(layer, g, seed_nodes)
            if not isinstance(frontier, Frontier):
                raise _returned(self, "sample_frontier", frontier, "a frontier, such as that of sample_neighbors()")
            blocks.insert(0, to_block(frontier, seed_nodes))
            seed_nodes = blocks[0].src_nodes
        return blocks

    def sample(self, g: Any, seed_nodes: Tensor, exclude_eids: Any = None) -> tuple[Tensor, Tensor, list[Any]]:
        """(input nodes, output nodes, blocks) of some seeds."""
        sampled = self.sample_blocks(g, seed_nodes, exclude_eids=exclude_eids)
        if isinstance(sampled, list):
            sampled = None, seed_nodes, sampled
        input_nodes, output_nodes, blocks = _checked(self, "sample_blocks", sampled)
        if input_nodes is None:
            input_nodes = blocks[0].srcdata[NID] if blocks else seed_nodes
        return input_nodes, output_nodes, blocks


def _checked(sampler: BlockSampler, method: str, sampled: Any) -> Any:
    """What a sampler of one's own returned; TypeError unless it is (input nodes, output nodes, blocks)."""
    is_triple = isinstance(sampled, (tuple, list)) and len(sampled) == 3
    if not is_triple or not isinstance(sampled[2], (tuple, list)):
        raise _returned(sampler, method, sampled, "(input nodes, output nodes, list of blocks)")
    for block in sampled[2]:
        if not hasattr(block, "srcdata"):
            raise _returned(sampler, method, block, "blocks, such as to_block() makes of frontiers", "among its blocks ")
    return sampled


def _returned(sampler: BlockSampler, method: str, found: Any, wanted: str, where: str = "") -> TypeError:
    kind = "None" if found is None else f"{'an' if type(found).__name__[0] in 'aeiouAEIOU' else 'a'} {type(found).__name__}"
    return TypeError(f"{method} of {type(sampler).__name__} returned {where}{kind}; return {wanted}")


class NeighborSampler(BlockSampler):
    """A fixed number of neighbors for every node, as DGL's. A loader runs it in threads of C++.

    Args:
        fanouts: the first is that of the layer farthest from the seeds; -1: all neighbors. Of a graph of several types each is a
            number for every relation, or a dict that names all of them, by triples or names.
        prob: any name: by the edges' weights, with which the graph was loaded.
        replace: whether an edge may be chosen several times.
        prefetch_node_feats, prefetch_labels: as BlockSampler's. Rows are gathered while the batch before is trained on.
        edge_dir, mask, prefetch_edge_feats: refused. output_device, fused: without effect.
    """

    def __init__(
        self,
        fanouts: Sequence[int | Mapping[Any, int]],
        edge_dir: str = "in",
        prob: str | None = None,
        mask: str | None = None,
        replace: bool = False,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
        fused: bool = True,
    ) -> None:
        if edge_dir != "in":
            raise InputError(f"edge_dir={edge_dir!r} is not possible", "Strata keeps in-edges: load the reversed graph.")
        if isinstance(fanouts, str) or not isinstance(fanouts, Iterable):
            raise TypeError(f"fanouts is {fanouts!r}; give one number of neighbors per layer: [5, 10, 15]")
        if mask is not None:
            raise InputError("mask is not possible", "Give edges a weight of 0 that are not to be chosen, and prob.")
        self.fanouts: list[Any] = [_checked_fanouts(fanout) for fanout in fanouts]
        super().__init__(
            len(self.fanouts),
            prefetch_node_feats=prefetch_node_feats,
            prefetch_labels=prefetch_labels,
            prefetch_edge_feats=prefetch_edge_feats,
        )
        self.prob = prob
        self.replace = replace

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Tensor) -> Frontier:
        """`fanouts[block_id]` in-edges of each of the nodes."""
        return sample_neighbors(g, seed_nodes, self.fanouts[block_id], prob=self.prob, replace=self.replace)

    def runs_in_cpp(self) -> bool:
        """Whether nothing of it was redefined."""
        mine, plain = type(self), NeighborSampler
        names = ("sample_frontier", "sample_blocks", "sample")
        return all(getattr(mine, name) is getattr(plain, name) for name in names)


def _checked_fanouts(fanout: Any) -> Any:
    if not isinstance(fanout, Mapping):
        return check_fanout(fanout)
    return {
        kind: _arguments.fanouts([-1 if of_type is None else of_type], "fanouts", zero=True)[0]
        for kind, of_type in fanout.items()
    }


class MultiLayerNeighborSampler(NeighborSampler):
    """NeighborSampler by its older name, and with its older arguments."""

    def __init__(
        self, fanouts: Sequence[int | Mapping[Any, int]], replace: bool = False, return_eids: bool = False, **others: Any
    ) -> None:
        super().__init__(fanouts, replace=replace, **others)


class MultiLayerFullNeighborSampler(NeighborSampler):
    """All neighbors in every layer."""

    def __init__(self, num_layers: int, return_eids: bool = False, **others: Any) -> None:
        super().__init__([-1] * num_layers, **others)


def as_edge_prediction_sampler(
    sampler: NeighborSampler,
    exclude: str | None = None,
    reverse_eids: Any = None,
    reverse_etypes: Any = None,
    negative_sampler: negative_sampler.PerSourceUniform | negative_sampler.GlobalUniform | None = None,
    **others: Any,
) -> EdgePredictionSampler:
    """A sampler of edges to predict: DataLoader(graph, ids of edges, this) gives (input nodes, pair graph, blocks).

    With a negative sampler it gives (input nodes, pair graph, negative graph, blocks). The edges that `exclude` names are left out
    before neighbors are chosen, those of all ranks' batches of a step; DGL takes them out of what was chosen.

    Args:
        sampler: a NeighborSampler whose methods are its own.
        exclude: None; "self": the edges of the step; "reverse_id": also those that reverse_eids [edges] names; "reverse_types": also
            those of the same number of the relation that reverse_etypes, {relation: its reverse}, names.
        negative_sampler: negative_sampler.Uniform(k) or GlobalUniform(k).
        others: prefetch_labels, which must be left out.
    """
    if not isinstance(sampler, NeighborSampler) or not sampler.runs_in_cpp():
        raise InputError(f"edges are not predicted with a {type(sampler).__name__}", "Give a NeighborSampler.")
    if any(value is not None for value in others.values()):
        raise InputError(
            f"{', '.join(others)} {'is' if len(others) < 2 else 'are'} not possible", "Look labels of edges up by pair_graph.edata[EID]."
        )
    return EdgePredictionSampler(sampler, exclude, reverse_eids, reverse_etypes, negative_sampler)


class _BlockLoader(NodeLoader):
    """A NodeLoader of this package's blocks."""

    _block_class = Block


class DataLoader:
    """dgl.dataloading.DataLoader over a graph of Strata: yields (input nodes, output nodes, blocks) on this process's device.

    A NeighborSampler's batches are those of strata.NodeLoader: made ahead by threads of C++, and bit for bit those of
    strata-train. A sampler of one's own is called between batches.

    Of a graph of several types, ids of nodes are {type: ids}, counted within the type, and blocks are HeteroBlocks. Its sampler is a
    NeighborSampler.

    Args:
        graph: of strata.load() and its like, or a DGLGraph or HeteroGraph of one.
        indices: ids or a mask, of a graph of several types {type: ids or mask}, whose seeds share batches. Those of this rank, as scripts slice them, each rank with its own number of batches; with
            `use_ddp`, those of all ranks, which are dealt to them, and loops over the batches are then collective.
        graph_sampler: a NeighborSampler, or what was derived from BlockSampler; or as_edge_prediction_sampler(), with ids of edges
            as indices. These are all ranks', with `use_ddp`.
        device: only this process's.
        use_ddp: see `indices`. A rank may get a batch without seeds: sum losses, and multiply by batch.sum_scale.
        ddp_seed: keys the order and the choice of neighbors.
        batch_size, drop_last, shuffle: as DGL's; batch_size is per rank.
        blocks: "dgl", "strata", or "auto": DGL's where the program has imported dgl.
        others: without effect, and they say so.
    """

    def __init__(
        self,
        graph: Graph | DGLGraph | HeteroGraph,
        indices: Any,
        graph_sampler: BlockSampler | EdgePredictionSampler,
        device: Any = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        batch_size: int = 1,
        drop_last: bool = False,
        shuffle: bool = False,
        *,
        blocks: str = "auto",
        **others: Any,
    ) -> None:
        self.graph = graph_of(graph.graph if isinstance(graph, HeteroGraph) else graph, several_types=True)
        if not isinstance(graph_sampler, (BlockSampler, EdgePredictionSampler)):
            raise InputError(f"graph_sampler is a {type(graph_sampler).__name__}", "Derive it from strata.dgl.BlockSampler.")
        if blocks not in ("auto", "dgl", "strata"):
            raise InputError(f"blocks={blocks!r} is not possible", 'Choose "auto", "dgl" or "strata".')
        say_what_has_no_effect(others)
        check_device(device)
        self._given = graph  # what samplers of one's own are given
        self.graph_sampler: Any = graph_sampler
        self._blocks = blocks
        self._options: dict[str, Any] = {
            "batch_size": _arguments.integer(batch_size, "batch_size", 1),
            "drop_last": _arguments.flag(drop_last, "drop_last"),
            "shuffle": _arguments.flag(shuffle, "shuffle"),
        }
        self._seed = _arguments.integer(ddp_seed, "ddp_seed", 0, (1 << 64) - 1)
        self._epoch = 0
        self._own = not use_ddp
        self._loader: NodeLoader | PairLoader | HeteroPairLoader | None = None
        if self.graph._types is not None:
            made = self._loader_of_types(self.graph._types, indices)
            self._loader, self._ids = made, torch.arange(made.num_given)
            return
        if isinstance(graph_sampler, EdgePredictionSampler):
            self._ids = torch.as_tensor(indices).cpu()
            self._loader = self._loader_of_pairs(graph_sampler)
            return
        self._ids = _ids(self.graph, indices)
        if isinstance(graph_sampler, NeighborSampler) and graph_sampler.runs_in_cpp():
            self._loader = self._loader_of(graph_sampler)

    def _check_ranks_of_pairs(self) -> None:
        if self._own and process().size > 1:
            raise InputError(
                "ranks are to predict edges of their own", "Give all ranks the same ids, and use_ddp=True, which deals them."
            )

    def _loader_of_pairs(self, edges: EdgePredictionSampler) -> PairLoader:
        self._check_ranks_of_pairs()
        if edges.reverse_etypes is not None:
            raise InputError("reverse_etypes names types, but the graph has one", 'Choose "reverse_id", with reverse_eids.')
        sampler = edges.sampler
        return PairLoader(
            self.graph,
            self._ids,
            fanouts=sampler.fanouts[::-1],
            neg_sampling=None if edges.negatives is None else edges.negatives.to_strata(),
            exclude_seed_edges=edges.exclude is not None,
            reverse=False if edges.reverse_eids is None else edges.reverse_eids,
            sampler="uniform" if sampler.prob is None else "weighted",
            replace=sampler.replace,
            seed=self._seed,
            features=edges.feature_name is not None,
            transposes=not self._gives_dgl(),
            **self._options,
        )

    def _loader_of(self, sampler: NeighborSampler) -> NodeLoader:
        has_rows = sampler.feature_name is not None or sampler.label_name is not None
        if sampler.feats_by_type or sampler.labels_by_type or any(isinstance(fanout, Mapping) for fanout in sampler.fanouts):
            raise InputError(
                "the sampler names types, but the graph has one", "Give one fanout per layer, and names without types."
            )
        return _BlockLoader(
            self.graph, self._ids, fanouts=sampler.fanouts[::-1], features=has_rows, **self._options_of(sampler)
        )

    def _loader_of_types(self, types: Types, indices: Any) -> HeteroLoader | HeteroPairLoader:
        sampler = self.graph_sampler
        if isinstance(sampler, EdgePredictionSampler):
            self._check_ranks_of_pairs()
            options = self._options_of(sampler.sampler)
            del options["own_nodes"]
            return HeteroPairLoader(self.graph, types, indices, sampler, **options)
        if not isinstance(sampler, NeighborSampler) or not sampler.runs_in_cpp():
            raise InputError(
                f"a {type(sampler).__name__} samples graphs of one type", "Give a NeighborSampler."
            )
        return HeteroLoader(self.graph, types, indices, sampler, **self._options_of(sampler))

    def _options_of(self, sampler: NeighborSampler) -> dict[str, Any]:
        """What loaders take besides."""
        return {
            "sampler": "uniform" if sampler.prob is None else "weighted",
            "replace": sampler.replace,
            "seed": self._seed,
            "own_nodes": self._own,
            "transposes": not self._gives_dgl(),
            **self._options,
        }

    @property
    def _ranks(self) -> int:
        return 1 if self._own else process().size

    def __len__(self) -> int:
        """Batches that this rank gets in an epoch."""
        step = int(self._options["batch_size"]) * self._ranks
        return len(self._ids) // step if self._options["drop_last"] else -(-len(self._ids) // step)

    def set_epoch(self, epoch: int) -> None:
        """The next epoch's number, which with ddp_seed decides its order and choices; epochs count up by themselves."""
        self._epoch = _arguments.epoch(epoch)

    def run_on(self, split: SmSplit) -> None:
        """As strata.NeighborLoader.run_on; for samplers whose batches threads of C++ make."""
        if self._loader is None:
            raise InputError("this sampler runs in Python, on torch's current stream", "Sample within torch.cuda.stream(...).")
        self._loader.run_on(split)

    def __iter__(self) -> Iterator[Any]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        if isinstance(self._loader, PairLoader):
            return self._pairs(self._loader, epoch)
        if isinstance(self._loader, HeteroPairLoader):
            return self._pairs_of_types(self._loader, epoch)
        return self._from_cpp(self._loader, epoch) if self._loader is not None else self._from_python(epoch)

    def _pairs(self, loader: PairLoader, epoch: int) -> Iterator[Any]:
        edges: EdgePredictionSampler = self.graph_sampler
        loader.set_epoch(epoch)
        for item in loader:
            sample, x = item if edges.feature_name is not None else (item, None)
            graphs = [graph for graph in pair_graphs(sample, self._ids, edges.negatives is not None) if graph]
            batch = self._finish(sample, sample.blocks, x, None)
            yield (batch.input_nodes, *(graph.to_dgl() if self._gives_dgl() else graph for graph in graphs), batch.blocks)

    def _pairs_of_types(self, loader: HeteroPairLoader, epoch: int) -> Iterator[Any]:
        loader.set_epoch(epoch)
        for input_nodes, *parts, _ in loader:
            graphs, blocks = ([one.to_dgl() for one in part] if self._gives_dgl() else part for part in parts)
            yield (input_nodes, *graphs, blocks)

    def _from_cpp(self, loader: NodeLoader, epoch: int) -> Iterator[Any]:
        loader.set_epoch(epoch)
        wants_rows = self.graph_sampler.feature_name is not None or self.graph_sampler.label_name is not None
        for item in loader:
            batch, x, y = item if wants_rows else (item, None, None)
            yield self._finish(batch, batch.blocks, x, y)

    def _from_python(self, epoch: int) -> Iterator[Any]:
        order = self._order(epoch)
        for step in range(len(self)):
            input_id, scales = self._share(order, step)
            seeds = self._ids[input_id].to(process().device)
            with keyed(self.graph, self._seed, epoch, step, self._hops_with_transposes()):
                input_nodes, output_nodes, blocks = _checked(
                    self.graph_sampler, "sample", self.graph_sampler.sample(self._given, seeds)
                )
            batch = BlockBatch(input_nodes, output_nodes, blocks)
            batch.loss_scale, batch.sum_scale = scales
            batch.input_id = input_id.to(seeds.device)
            x = None if self.graph_sampler.feature_name is None else self.graph.features[input_nodes]
            y = None if self.graph_sampler.label_name is None else self.graph.labels[output_nodes]
            yield self._finish(batch, blocks, x, y)

    def _hops_with_transposes(self) -> int:
        """All but that of the layer farthest from the seeds, whose inputs need no gradient."""
        if self._gives_dgl():
            return 0
        layers = self.graph_sampler.num_layers
        return sys.maxsize if layers is None else layers - 1

    def _gives_dgl(self) -> bool:
        return self._blocks == "dgl" or (self._blocks == "auto" and "dgl" in sys.modules)

    def _order(self, epoch: int) -> Tensor:
        """Positions among the ids."""
        if not self._options["shuffle"]:
            return torch.arange(len(self._ids))
        generator = torch.Generator().manual_seed((self._seed * 1_000_003 + epoch) % (1 << 63))
        return torch.randperm(len(self._ids), generator=generator)

    def _share(self, order: Tensor, step: int) -> tuple[Tensor, tuple[float, float]]:
        """This rank's part of a step, loss_scale and sum_scale; all ranks together have the step's."""
        size = self._options["batch_size"] * self._ranks
        of_step = order[step * size : (step + 1) * size]
        rank = 0 if self._own else process().rank
        begin, end = len(of_step) * rank // self._ranks, len(of_step) * (rank + 1) // self._ranks
        return of_step[begin:end], (self._ranks * (end - begin) / len(of_step), self._ranks / len(of_step))

    def _finish(self, batch: BlockBatch, blocks: list[Any], x: Tensor | None, y: Tensor | None) -> BlockBatch:
        """The batch with these blocks, in the form that was asked for."""
        if blocks and x is not None and self.graph_sampler.feature_name is not None:
            blocks[0].srcdata[self.graph_sampler.feature_name] = x
        if blocks and y is not None and self.graph_sampler.label_name is not None:
            blocks[-1].dstdata[self.graph_sampler.label_name] = y
        if self._gives_dgl():
            blocks = [block.to_dgl() if isinstance(block, (Block, HeteroBlock)) else block for block in blocks]
        made = BlockBatch(batch.input_nodes, batch.output_nodes, blocks)
        made.loss_scale, made.sum_scale, made.input_id = batch.loss_scale, batch.sum_scale, batch.input_id
        return made


class NodeDataLoader(DataLoader):
    """DataLoader by its name until DGL 0.8: NodeDataLoader(g, nids, block_sampler, device, use_ddp, ddp_seed, batch_size=...)."""


def _names(option: str, names: Any) -> tuple[str | None, Any]:
    """The one name, or names by type."""
    if not names or isinstance(names, Mapping):
        return None, names or None
    names = [names] if isinstance(names, str) else list(names)
    if len(names) > 1:
        raise InputError(f"{option} has {len(names)} names", "A graph of one type has one array of features and one of labels.")
    return str(names[0]), None


def _ids(graph: Graph, indices: Any) -> Tensor:
    if isinstance(indices, dict):
        raise InputError("indices name types of nodes", "This graph has one type of nodes: give ids.")
    if isinstance(indices, str):
        return graph.nodes(indices)
    return torch.as_tensor(ids_of(graph, indices))


if not TYPE_CHECKING:
    _LINKS = "DataLoader takes as_edge_prediction_sampler(sampler)"
    __getattr__ = attributes_of(
        __name__,
        dict.fromkeys(("EdgeDataLoader", "EdgeCollator"), _LINKS)
        | dict.fromkeys(("ClusterGCNSampler", "ShaDowKHopSampler", "SAINTSampler"), "derive from BlockSampler"),
    )
