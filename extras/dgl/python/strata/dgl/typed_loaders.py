# SPDX-License-Identifier: Apache-2.0
"""Batches of graphs of several types by DGL's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strata import _core
from strata._arrays import to_torch
from strata._types import EdgeType, Types
from strata.batches import BlockBatch
from strata.dgl.blocks import NID
from strata.dgl.typed_blocks import HeteroBlock
from strata.errors import InputError
from strata.graph import Graph
from strata.loaders import NodeLoader

if TYPE_CHECKING:
    from strata.dgl.dataloading import NeighborSampler

Names = Mapping[str, Sequence[str]]


class Prefetched:
    """The rows that blocks are given: arrays of the graph by type of nodes, for inputs and for seeds."""

    def __init__(self, types: Types, sampler: NeighborSampler) -> None:
        self._types = types
        self._feats = _names_of(types, "prefetch_node_feats", sampler.feature_name, sampler.feats_by_type)
        self._labels = _names_of(types, "prefetch_labels", sampler.label_name, sampler.labels_by_type)

    @property
    def has_joined(self) -> bool:
        """Whether the loader is to gather features, since the graph itself holds them."""
        return any(self._cols_of(kind) for kind, names in self._feats.items() if "x" in names)

    def _cols_of(self, kind: str) -> int:
        return self._types.feature_cols[self._types.node_types.index(kind)]

    def put(self, first: HeteroBlock, last: HeteroBlock, made: _core.NodeBatch) -> None:
        """Gives the first block the rows of its sources, and the last one those of its destinations."""
        joined = {} if made.features is None else first.rows_by_type(to_torch(made.features), is_src=True)
        for kind, names in self._feats.items():
            data = first.srcnodes[kind].data
            for name in names:
                is_joined = name == "x" and self._cols_of(kind) > 0
                rows = joined[kind][:, : self._cols_of(kind)] if is_joined else self._types.rows(kind, name, data[NID])
                data[name] = rows
        labels = None
        if self._types.labels_come_with_seeds and made.labels is not None:
            labels = last.rows_by_type(to_torch(made.labels), is_src=False)
        for kind, names in self._labels.items():
            data = last.dstnodes[kind].data
            for name in names:
                data[name] = labels[kind] if name == "y" and labels is not None else self._types.rows(kind, name, data[NID])


def described(sample: BlockBatch, types: Types, made: _core.NodeBatch) -> list[HeteroBlock]:
    """The blocks of a batch, which know their graph's types."""
    blocks = []
    for block in sample.blocks:
        assert isinstance(block, HeteroBlock)
        block.describe(types, to_torch(made.original_ids))
        blocks.append(block)
    return blocks


class HeteroLoader(NodeLoader):
    """A NodeLoader of HeteroBlocks, whose batches have ids by type."""

    _block_class = HeteroBlock

    def __init__(self, graph: Graph, types: Types, indices: Any, neighbors: NeighborSampler, **options: Any) -> None:
        self._types, self._prefetched = types, Prefetched(types, neighbors)
        super().__init__(
            graph,
            _indices_of(types, indices),
            fanouts=fanouts_of(types, neighbors.fanouts),
            features=self._prefetched.has_joined,
            **options,
        )

    @property
    def num_given(self) -> int:
        """The number of seeds of all types."""
        return 0 if self._seeds is None else self._seeds.size

    def __iter__(self) -> Iterator[Any]:
        for made in self._batches():
            sample = self._of_blocks(made)
            blocks = described(sample, self._types, made)
            self._prefetched.put(blocks[0], blocks[-1], made)
            yield self._by_type(sample, blocks, to_torch(made.input_ids))

    def _by_type(self, sample: BlockBatch, blocks: list[HeteroBlock], input_ids: Tensor) -> BlockBatch:
        seeds = self._seeds
        assert seeds is not None
        output_nodes: Any = {kind: blocks[-1].dstnodes[kind].data[NID] for kind in seeds.types}
        of_types = {kind: seeds.input_ids(n, part) for n, (kind, part) in enumerate(zip(seeds.types, seeds.split(input_ids)))}
        is_single = len(self._types.node_types) == 1
        made = BlockBatch(blocks[0].srcdata[NID], output_nodes[seeds.types[0]] if is_single else output_nodes, list(blocks))
        made.loss_scale, made.sum_scale = sample.loss_scale, sample.sum_scale
        by_type: Any = of_types[seeds.types[0]] if is_single else of_types
        made.input_id = by_type
        return made


def _names_of(types: Types, option: str, one: str | None, by_type: Names | None) -> dict[str, list[str]]:
    if one is not None and by_type is None:
        if len(types.node_types) > 1:
            raise InputError(f"{option}={one!r} names no type of nodes", f'Give {{"{types.node_types[0]}": ["{one}"]}}.')
        by_type = {types.node_types[0]: [one]}
    found = {}
    for kind, names in (by_type or {}).items():
        if kind not in types.nodes:
            raise InputError(f"{option} names no type of nodes: {kind!r}", f"Give some of {types.node_types}.")
        found[kind] = [names] if isinstance(names, str) else list(names)
        held = [*types.nodes[kind].attributes, *(["x"] if types.feature_cols[types.node_types.index(kind)] else [])]
        if option == "prefetch_labels" and types.labels_come_with_seeds:
            held.append("y")
        for name in found[kind]:
            if name not in held:
                raise InputError(f"{option}: nodes of {kind!r} have no {name!r}", f"They have {sorted(held)}.")
    return found


def _indices_of(types: Types, indices: Any) -> Any:
    if isinstance(indices, Mapping):
        return dict(indices)
    if len(types.node_types) > 1:
        raise InputError(
            "the graph has several types of nodes, but indices names none",
            f'Give ids by type: {{"{types.node_types[0]}": ids}}.',
        )
    return types.node_types[0], torch.as_tensor(indices)


def fanouts_of(types: Types, of_layers: Sequence[int | Mapping[Any, int]]) -> dict[EdgeType, list[int]]:
    """Fanouts by relation, the seeds' first, of those of layers, the one farthest from the seeds first."""
    found: dict[EdgeType, list[int]] = {kind: [] for kind in types.edge_types}
    for fanout in reversed(of_layers):
        of_relations = fanout
        if isinstance(fanout, Mapping):
            of_relations = {types.edge_type(key): value for key, value in fanout.items()}
            if missing := [kind for kind in types.edge_types if kind not in of_relations]:
                raise InputError(
                    f"fanouts do not name the relation {missing[0]}", "Give a fanout for every relation, 0 for none."
                )
        for kind, of_hops in found.items():
            of_hops.append(of_relations[kind] if isinstance(of_relations, Mapping) else of_relations)
    return found
