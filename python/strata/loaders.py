# SPDX-License-Identifier: Apache-2.0
"""Batches for models of torch_geometric, DGL, or one's own."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Union

from strata import _arguments, _core
from strata._arrays import current_stream, to_torch
from strata._indices import rows_of
from strata._input_nodes import ids_of as ids_of, said, warn_of_no_batches
from strata._loader_options import by_weight, check_others, check_weights, form_of
from strata._own_models import Watch
from strata._process import not_for_other_processes, process, refuse_forks, register, together
from strata._subgraphs import bidirectional, induced
from strata._types import Seeds
from strata.batches import Block, BlockBatch, block_of
from strata.choosers import NeighborChooser
from strata.errors import InputError
from strata.graph import Graph, require_graph

if TYPE_CHECKING:
    import torch
    from torch_geometric.data import Data

    from strata.sm_split import SmSplit

# Of a graph of several types also by relation.
Fanouts = Union[Sequence[int], Mapping[tuple[str, str, str], Sequence[int]]]
_numbers = itertools.count(1 << 32)  # loaders are closed before graphs


def _drawn_seed(seed: int | None, own_nodes: bool) -> int:
    """What stands for a seed of None: a number of torch's generator, the first rank's for all. Collective, unless own_nodes."""
    text = ""
    if seed is None:
        import torch

        text = str(int(torch.randint(1 << 62, ())))
    if not own_nodes:
        text = process().broadcast(text, 0) or text
    return int(text or 0)


class _Loader:
    """The common part of all loaders: options, epochs, steps."""

    _weight_attr: str | None = None
    _seeds: Seeds | None = None  # of a graph of several types
    _block_class: type[Block] = Block
    transform: Callable[[Any], Any] | None = None

    def __init__(
        self,
        graph: Graph,
        fanouts: Fanouts,
        input_nodes: Any,
        *,
        batch_size: int,
        shuffle: bool,
        drop_last: bool,
        replace: bool,
        sampler: str | NeighborChooser,
        layer_dependent: bool,
        seed: int | None,
        merged: bool,
        features: bool,
        own_nodes: bool = False,
        deal: bool = True,
        transposes: bool = False,
        original: bool | None = None,
        links: _core.LinkOptions | None = None,
    ) -> None:
        def options() -> _core.LoaderOptions:
            of_hops = _arguments.fanouts(fanouts, "num_neighbors" if merged else "fanouts", bool(relation_fanouts))
            chooser = sampler if isinstance(sampler, NeighborChooser) else None
            if not isinstance(sampler, str) and chooser is None:
                raise TypeError(
                    f'sampler is {sampler!r}; give a name ("uniform") or an object of a class derived from NeighborChooser'
                )
            if self._weight_attr is not None:
                check_weights(graph, self._weight_attr)
            if chooser is not None:
                chooser.check(graph, replace, layer_dependent)
            return _core.LoaderOptions.make(
                fanouts=of_hops,
                relation_fanouts=relation_fanouts,
                split=input_nodes if isinstance(input_nodes, str) else None,
                nodes=None if links is not None or isinstance(input_nodes, str) else ids_of(graph, input_nodes, original),
                batch_size=_arguments.integer(batch_size, "batch_size", 1),
                shuffle=_arguments.flag(shuffle, "shuffle"),
                drop_last=_arguments.flag(drop_last, "drop_last"),
                seed=drawn if seed is None else _arguments.integer(seed, "seed", 0, (1 << 64) - 1),
                sampler=sampler if isinstance(sampler, str) else "uniform",
                replace=_arguments.flag(replace, "replace"),
                layer_dependent=_arguments.flag(layer_dependent, "layer_dependent"),
                merged=merged,
                features=_arguments.flag(features, "features"),
                labels=links is None,
                own_nodes=_arguments.flag(own_nodes, "own_nodes"),
                deals=_arguments.flag(deal, "deal"),
                transposes=_arguments.flag(transposes, "transposes"),
                chooser=chooser,
                links=links,
            )

        relation_fanouts: list[list[int]] = []
        if graph._types is not None and links is not None:
            relation_fanouts, fanouts = graph._types.most_fanouts(fanouts)
        elif graph._types is not None:
            relation_fanouts, fanouts, self._seeds = graph._types.choices(fanouts, None if input_nodes is ... else input_nodes)
            input_nodes, original = graph._types.core_ids(self._seeds), graph.is_renumbered
        input_nodes = None if links is not None else said(graph, input_nodes)
        drawn = _drawn_seed(seed, own_nodes)
        self._graph = graph
        self._number = next(_numbers)
        self._epoch = 0
        self._iterations = 0  # begun; a loader serves the last one
        self._in_use = threading.Lock()
        self._own_nodes = own_nodes
        self._core = _core.NodeLoader.make(graph._core, options() if own_nodes else together(options))
        self._description = (
            f"{graph!r}, {'num_neighbors' if merged else 'fanouts'}={list(fanouts)}, batch_size={batch_size}, "
            f"seeds={self._core.num_seeds}"
        )
        register(self)
        if not own_nodes and self._core.steps_per_epoch == 0:
            warn_of_no_batches(input_nodes, self._core.num_seeds, drop_last)

    def __len__(self) -> int:
        """Batches that each rank gets in an epoch."""
        return self._core.steps_per_epoch

    @property
    def dataset(self) -> range:
        """Positions among the input nodes of all ranks, as PyG's loaders have them: len(loader.dataset) is how many there are."""
        return range(self._core.num_seeds)

    @property
    def batches_made(self) -> int:
        """Number of batches that memory was allocated for on this rank so far; dropped batches leave it to later ones."""
        return self._core.batches_made

    @property
    def batches_held(self) -> int:
        """Number of batches of this rank that are still referenced: their memory is in use."""
        return self._core.batches_held

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._description})"

    def set_epoch(self, epoch: int) -> None:
        """The next epoch's number, which with the seed decides its order and its choices; epochs count up by themselves.

        The same on all ranks, which refuse to begin different ones.
        """
        self._epoch = _arguments.epoch(epoch)

    def run_on(self, split: SmSplit) -> None:
        """Ends the epoch; later ones are loaded on the SMs of the split that are for loading."""
        refuse_forks()
        self._core.run_on(split._core)

    def close(self) -> None:
        """Ends the loader and frees its memory. Collective; Graph.close() does it, too. Batches that are in use stay."""
        refuse_forks()
        if self._graph._core.is_open:
            self._core.close()

    def __reduce__(self) -> Any:
        raise not_for_other_processes("a loader")

    def _batches(self) -> Iterator[_core.NodeBatch]:
        refuse_forks()
        epoch, self._epoch = self._epoch, self._epoch + 1
        with self._for_one_thread():
            self._core.begin(epoch)
            self._iterations += 1
            iteration = self._iterations
        with Watch(is_first_epoch=iteration == 1 and not self._own_nodes):
            while (batch := self._next_of(iteration)) is not None:
                yield batch
                del batch

    def _labels_of(self, batch: _core.NodeBatch) -> torch.Tensor | None:
        """Labels of the seeds: classes, sets of classes, or targets."""
        if batch.label_sets is not None:
            rows = to_torch(batch.label_sets)
            return rows[:, 0] if self._graph._core.num_targets == 1 else rows
        if batch.labels is not None:
            return to_torch(batch.labels)
        seeds = to_torch(batch.nodes)[: batch.num_seeds]
        if self._graph._types is not None:
            return self._graph._types.labels(seeds, self._seeds)
        targets = self._graph._attributes.targets
        return None if targets is None else targets[seeds]

    def _sum_scale(self, batch: _core.NodeBatch) -> float:
        return (1 if self._own_nodes else process().size) / max(1, batch.num_global_seeds)

    def _finished(self, data: Any, batch: _core.NodeBatch) -> Any:
        """The Data or HeteroData of a batch with what losses need, as the user's transform makes it."""
        data.num_global_seeds = batch.num_global_seeds
        data.loss_scale, data.sum_scale = batch.loss_scale, self._sum_scale(batch)
        return data if self.transform is None else self.transform(data)

    def _of_blocks(self, batch: _core.NodeBatch) -> BlockBatch:
        nodes = to_torch(batch.nodes)
        blocks = [block_of(lists, nodes, self._block_class) for lists in batch.blocks]
        if self._graph._types is not None:
            self._graph._types.mark(blocks, to_torch(batch.original_ids))
        sample = BlockBatch(nodes, nodes[: batch.num_seeds], blocks)
        sample.loss_scale, sample.sum_scale = batch.loss_scale, self._sum_scale(batch)
        return sample

    @contextmanager
    def _for_one_thread(self) -> Iterator[None]:
        if not self._in_use.acquire(blocking=False):
            raise InputError("two threads use one loader", "A loader takes one thread at a time; make one for each thread.")
        try:
            yield
        finally:
            self._in_use.release()

    def _next_of(self, iteration: int) -> _core.NodeBatch | None:
        if iteration != self._iterations:
            raise InputError(
                "another iteration over this loader has begun, which ended this one",
                "A loader takes one iteration, and one thread, at a time; make a second loader for another.",
            )
        with self._for_one_thread():
            return self._core.next(current_stream())


class NeighborLoader(_Loader):
    """Batches as torch_geometric.loader.NeighborLoader gives them, from a graph of Strata.

    Each is a torch_geometric.data.Data on this process's device: x, edge_index, n_id, e_id (if the graph has edge ids),
    batch_size, num_sampled_nodes, num_sampled_edges, input_id as PyG has them; y of the seeds, [batch_size]; rows of the
    attributes that the graph was made with (edge_weight, edge_attr ...); and original_ids, loss_scale and sum_scale (see below),
    num_global_seeds.

    All ranks make the same loaders and take the same batches. A step has `batch_size` seeds per rank, which are dealt to
    the ranks that have them near, so ranks' shares differ, and a rank may have no seeds in a step. Multiply the sum of a rank's
    losses by `batch.sum_scale`: the mean over the ranks that DDP takes of the gradients is the mean over all seeds. Of a mean
    loss `batch.loss_scale` does the same, except where it is the mean of no seeds, which is nan.

    Args:
        graph: of load() or from_tensors().
        num_neighbors: fanouts, seeds first; -1: all neighbors.
        input_nodes: "train", "valid" (or "val"), "test", ids, or a mask; None: all nodes. The same on all ranks, which they are
            dealt to. Left out they are all nodes, as with PyG, and refused if the graph has training nodes.
        original: True: ids or a mask in input_nodes are the input's numbers, which parts have others for. False: they are the
            graph's; so they are if it is left out, where a mask for a graph with numbers of its own gives a warning.
        batch_size: seeds per rank.
        shuffle, drop_last: as PyG.
        replace: whether a neighbor may be chosen several times.
        sampler: "uniform"; "weighted", by the edges' weights; "labor", which finds fewer distinct nodes; or one's own, derived
            from strata.NeighborChooser.
        weight_attr: any name, as PyG has it for sampler="weighted": by the weights with which the graph was loaded or made.
        seed: keys the order of seeds and all choices: the same ranks get the same batches again. Other numbers of ranks give
            a step the same seeds. A node's neighbors depend on the hop that finds it, and so on the seeds beside it;
            NodeLoader's, which are chosen anew in every hop, do not. None: a number of torch's generator, so that
            torch.manual_seed() decides; the first rank's counts.
        transform: called with each batch.
        subgraph_type: "directional": a batch has the sampled edges. "bidirectional": also their opposites, each edge once.
            "induced": all edges of the graph among the batch's nodes; on one machine, and read on the CPU. The last two have no
            num_sampled_nodes and num_sampled_edges.
        deal: False: input_nodes are this rank's own, as scripts slice them for their ranks, and this rank's batches have them
            as seeds. An epoch ends with the rank that has most; the others' last batches are empty. A rank's nodes must lie on
            its machine.
    """

    def __init__(
        self,
        graph: Graph,
        num_neighbors: Fanouts,
        input_nodes: Any = ...,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        replace: bool = False,
        sampler: str | NeighborChooser = "uniform",
        seed: int | None = 0,
        transform: Callable[[Data], Any] | None = None,
        deal: bool = True,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        weight_attr: str | None = None,
        original: bool | None = None,
        **others: Any,
    ) -> None:
        require_graph(graph, several_types=True)
        self._form = form_of(subgraph_type, disjoint, others)
        check_others("NeighborLoader", others)
        if weight_attr is not None:
            sampler = by_weight(sampler, weight_attr)
        self._weight_attr = weight_attr
        if graph._only_samples_weights and sampler != "weighted":
            warnings.warn(
                "the graph was loaded with weights, by which this loader chooses no neighbors, and its batches have no edge_weight: "
                'give sampler="weighted", or look them up in an array of your own, edge_weight[batch.e_id]',
                stacklevel=_arguments.caller(),
            )
        self.transform = transform
        self._input_nodes = input_nodes
        self._choices: dict[str, Any] = {"replace": replace, "sampler": sampler, "seed": seed, "deal": deal}
        self._choices["subgraph_type"] = self._form
        self._original = original
        self._fanouts = num_neighbors
        if graph._types is not None and self._form != "directional":
            raise InputError(f"subgraph_type={self._form!r} is not possible on graphs of several types", 'Take "directional".')
        super().__init__(
            graph,
            num_neighbors,
            input_nodes,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            replace=replace,
            sampler=sampler,
            layer_dependent=False,
            seed=seed,
            merged=True,
            features=True,
            deal=deal,
            original=original,
        )

    def __call__(self, index: Any) -> Any:
        """A batch of the input nodes at these positions, int64 [n], a list, mask or slice, as PyG's loaders give it. Collective."""
        import torch

        if self._graph._types is not None and self._seeds is not None:
            return self._of_types(rows_of(index, self._seeds.size, "input nodes").ids.cpu(), self._seeds)
        nodes = said(self._graph, self._input_nodes)
        if isinstance(nodes, str):
            nodes = self._graph.nodes(nodes)
        else:
            nodes = torch.as_tensor(ids_of(self._graph, nodes, bool(self._original)))
        positions = rows_of(index, len(nodes), "input nodes").ids.cpu()
        batch = self._single(nodes[positions], len(positions))
        batch.input_id = positions.to(batch.input_id.device)[batch.input_id]
        return batch if self.transform is None else self.transform(batch)

    def _of_types(self, positions: torch.Tensor, seeds: Seeds) -> Any:
        """The same of a graph of several types, whose positions are those of its types one after the other."""
        import torch

        of_types = seeds.split(positions)
        chosen = [(kind, torch.from_numpy(ids)[places]) for kind, ids, places in zip(seeds.types, seeds.ids, of_types)]
        batch = self._single(chosen, len(positions))
        for number, (kind, places) in enumerate(zip(seeds.types, of_types)):
            of_batch = batch[kind].input_id
            batch[kind].input_id = seeds.input_ids(number, places.to(of_batch.device)[of_batch])
        return batch if self.transform is None else self.transform(batch)

    def _single(self, nodes: Any, count: int) -> Any:
        """The batch of so many nodes, by a loader of its own."""
        if not count:
            raise InputError("a batch of no input nodes was asked for", "Give at least one position.")
        ranks = process().size if self._choices["deal"] else 1
        loader = NeighborLoader(self._graph, self._fanouts, nodes, batch_size=-(-count // ranks), **self._choices)
        batch = next(iter(loader))
        loader.close()
        return batch

    def __iter__(self) -> Iterator[Any]:
        from torch_geometric.data import Data

        for batch in self._batches():
            if self._graph._types is not None and self._seeds is not None:
                yield self._finished(self._graph._types.batch(batch, self._seeds), batch)
                continue
            data = Data(edge_index=to_torch(batch.edge_index), num_nodes=batch.num_nodes)
            if batch.features is not None:
                data.x = to_torch(batch.features)
            if (labels := self._labels_of(batch)) is not None:
                data.y = labels
            data.n_id = to_torch(batch.nodes)
            data.input_id = to_torch(batch.input_ids)
            data.original_ids = to_torch(batch.original_ids)
            if (edge_ids := batch.edge_ids) is not None:
                data.e_id = to_torch(edge_ids)
            data.batch_size = batch.num_seeds
            data.num_sampled_nodes = batch.nodes_of_hop
            data.num_sampled_edges = batch.edges_of_hop
            if self._form == "bidirectional":
                bidirectional(data)
            elif self._form == "induced":
                induced(data, self._graph)
            self._graph._attributes.complete(data)
            yield self._finished(data, batch)


class NodeLoader(_Loader):
    """Batches of blocks, one per layer, as DGL's and as strata-train's own are.

        for input_nodes, output_nodes, blocks in strata.NodeLoader(graph, "train", fanouts=[15, 10, 5], batch_size=1024):
            loss = F.cross_entropy(model(blocks, graph.features[input_nodes]), labels)

    Yields BlockBatch; or, with `features=True`, (BlockBatch, x, y), whose rows were gathered while the batch before was
    trained on. Every hop chooses neighbors of all nodes that are known by then. Arguments are those of NeighborLoader;
    `fanouts` are the seeds' first. `input_nodes` that are left out are the training nodes.

    Of a graph of several types, fanouts and input_nodes are those of NeighborLoader, ids of nodes are the graph's, of which each type
    has a range, and Block.types says what nodes and edges are. x has the rows of all types, if they have as many columns; those
    of parts end with zeros where others have more columns.

    With `own_nodes=True`, `input_nodes` are this rank's own, of which it makes its own batches, whatever other ranks do:
    nothing is collective then. On one machine only. DistributedDataParallel wants as many steps from all ranks, which
    `deal=False` gives.

    Options of torch's DataLoader that concern worker processes are accepted without effect, with a warning.

    `transposes=False` saves the time and memory of Block.transposed, where no layer of strata.nn is trained.
    """

    def __init__(
        self,
        graph: Graph,
        input_nodes: Any = "train",
        *,
        fanouts: Fanouts,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        replace: bool = False,
        sampler: str | NeighborChooser = "uniform",
        layer_dependent: bool = False,
        seed: int | None = 0,
        features: bool = False,
        own_nodes: bool = False,
        deal: bool = True,
        transposes: bool = True,
        original: bool | None = None,
        **others: Any,
    ) -> None:
        check_others("NodeLoader", others)
        require_graph(graph, several_types=True)
        self._features = features
        super().__init__(
            graph,
            fanouts,
            input_nodes,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            replace=replace,
            sampler=sampler,
            layer_dependent=layer_dependent,
            seed=seed,
            merged=False,
            features=features,
            own_nodes=own_nodes,
            deal=deal,
            transposes=transposes,
            original=original,
        )

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches():
            sample = self._of_blocks(batch)
            sample.input_id = to_torch(batch.input_ids)
            if not self._features:
                yield sample
                continue
            yield sample, to_torch(batch.features), self._labels_of(batch)
