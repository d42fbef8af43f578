# SPDX-License-Identifier: Apache-2.0
"""Batches of links: pairs of nodes to learn, such as edges, with pairs that are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from strata import _arguments, _core
from strata._arrays import to_torch
from strata._links import Excluded, all_of, edges_of, ends_of, links_of, own_edges, relation_of, reverse_edges
from strata._loader_options import by_weight, check_others, form_of
from strata._indices import rows_of
from strata._negatives import NegativeSampling as NegativeSampling
from strata._process import process, together
from strata._subgraphs import bidirectional
from strata.choosers import NeighborChooser
from strata.errors import InputError
from strata.graph import Graph, require_graph
from strata.loaders import Fanouts, _Loader

if TYPE_CHECKING:
    import torch
    from torch_geometric.data import Data


class _LinkLoader(_Loader):
    """The common part of loaders of links."""

    def __init__(
        self,
        graph: Graph,
        fanouts: Fanouts,
        edge_label_index: Any,
        edge_label: Any,
        neg_sampling: Any,
        exclude_seed_edges: bool,
        reverse: Any,
        original: bool | None,
        **options: Any,
    ) -> None:
        require_graph(graph, several_types=True)
        self._negatives = NegativeSampling.cast(neg_sampling)

        def excluded() -> tuple[Excluded | None, Excluded | None]:
            if not _arguments.flag(exclude_seed_edges, "exclude_seed_edges"):
                return None, None
            return own_edges(graph, links), reverse_edges(graph, links, reverse)

        links = all_of(graph, together(lambda: links_of(graph, edge_label_index)))
        edges, reverses = together(excluded)
        self._links = links
        self._edge_label = self._labels_of_links(edge_label, links.size)
        sources, destinations = ends_of(graph, links, original)
        relation = relation_of(graph, links.relation)
        negatives = None if self._negatives is None else self._negatives.to_core(graph, links, original)
        made = together(
            lambda: _core.LinkOptions.make(
                sources=sources,
                destinations=destinations,
                relation=edges_of(graph, links.relation),
                source_candidates=relation.sources,
                destination_candidates=relation.destinations,
                negatives=negatives,
                edges=edges,
                reverse_edges=reverses,
            )
        )
        super().__init__(graph, fanouts, None, original=original, links=made, **options)

    def _labels_of_links(self, edge_label: Any, count: int) -> torch.Tensor | None:
        import torch

        if edge_label is None:
            return None
        if self._negatives is not None and not self._negatives.is_binary():
            raise InputError(
                f"edge_label and {self._negatives.mode} negatives are given", "These have no labels: leave edge_label out."
            )
        labels = torch.as_tensor(edge_label)
        if labels.dim() == 0 or len(labels) != count:
            raise InputError(f"edge_label has the shape {tuple(labels.shape)} for {count} links", "Give one label per link.")
        if self._negatives is not None and labels.numel() and labels.min() == 0:
            labels = labels + 1  # 0 says that a pair is no link
        return labels

    @property
    def failed_draws(self) -> int:
        """Strict negatives of this rank so far that were edges although they were drawn anew five times."""
        return self._core.failed_draws

    def _set_fields(self, on_edges: Any, on_sources: Any, on_destinations: Any, made: _core.NodeBatch, number: Any) -> None:
        """Gives a batch, or its parts by type, PyG's fields. `number` maps places among the batch's nodes to theirs."""
        import torch

        is_shared = self._negatives is not None and self._negatives.is_shared()
        ends = to_torch(made.link_destinations)
        sources, destinations = number(to_torch(made.link_sources)), number(ends.clamp(min=0) if is_shared else ends)
        on_edges.input_id = links = to_torch(made.input_ids)
        if self._negatives is not None and not self._negatives.is_binary():
            on_sources.src_index = sources
            on_destinations.dst_pos_index = of_links = destinations[: len(links)]
            negatives = destinations[len(links) :].reshape(made.num_link_groups or len(links), -1 if len(links) else 0)
            if not is_shared:
                on_destinations.dst_neg_index = negatives.squeeze(-1) if negatives.shape[1] == 1 else negatives
                return
            on_destinations.dst_neg_index = negatives
            on_edges.neg_group = links.new_empty(0) if made.link_groups is None else to_torch(made.link_groups)
            is_there = ends[len(links) :].view_as(negatives) >= 0
            on_edges.neg_mask = is_there[on_edges.neg_group] & (negatives[on_edges.neg_group] != of_links.unsqueeze(1))
            return
        on_edges.edge_label_index = torch.stack([sources, destinations])
        labels = None if self._edge_label is None else self._edge_label[links.to(self._edge_label.device)].to(links.device)
        if self._negatives is not None:
            labels = torch.ones(len(links), device=links.device) if labels is None else labels
            labels = torch.cat([labels, labels.new_zeros((len(sources) - len(links), *labels.shape[1:]))])
        on_edges.edge_label = labels
        on_edges.edge_label_time = None


class LinkNeighborLoader(_LinkLoader):
    """Batches of links as torch_geometric.loader.LinkNeighborLoader gives them, from a graph of Strata.

    Each is a Data, or a HeteroData of a graph of several types, with what NeighborLoader's have, and of its links edge_label_index,
    edge_label and input_id; or with triplets src_index, dst_pos_index and dst_neg_index, as PyG has them. Its first nodes are
    the distinct ends of links and negatives, by id. Of shared negatives dst_neg_index is [groups, K], neg_group [links] the group of
    each link, and neg_mask [links, K] False where a group's negative is the link's own destination.

    The edges that a step is to predict would give away the answer, so no batch of the step has them: neighbors are chosen among
    the others. That is unlike PyG, whose batches exclude_seed_edges=False gives.

    All ranks make the same loaders and take the same batches. A step has `batch_size` links per rank; each is trained where its
    destination lies. Losses are scaled as NeighborLoader's batches say.

    Args:
        graph: of load(), from_pyg() and their like.
        num_neighbors: as NeighborLoader.
        edge_label_index: pairs [2, n] of nodes, which need not be edges; ids [n] or a mask of edges, as e_id numbers them; None:
            all edges. Of a graph of several types a relation, or (relation, any of these), whose nodes count within their types.
        edge_label: [n] labels of the links.
        neg_sampling: strata.NegativeSampling, PyG's, or a mode; neg_sampling_ratio: as "binary" with this amount.
        exclude_seed_edges: whether batches lack their step's links and their reverses.
        reverse: the edges from destinations to sources. Left out: of a relation within a type, those with these ends; else the
            relation that ToUndirected() made, if it is there. A relation: its edge at the same position, or with these ends if
            links are pairs. int64 [edges]: the id of each edge's reverse, -1: none. False: no others than the links.
        batch_size, shuffle, drop_last, replace, sampler, weight_attr, seed, transform, original: as NeighborLoader.
    """

    def __init__(
        self,
        graph: Graph,
        num_neighbors: Fanouts,
        edge_label_index: Any = None,
        edge_label: Any = None,
        *,
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        exclude_seed_edges: bool = True,
        reverse: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        replace: bool = False,
        sampler: str | NeighborChooser = "uniform",
        weight_attr: str | None = None,
        seed: int | None = 0,
        transform: Callable[[Data], Any] | None = None,
        original: bool | None = None,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        **others: Any,
    ) -> None:
        self._form = form_of(subgraph_type, disjoint, others)
        if self._form == "induced" or (self._form != "directional" and graph._types is not None):
            raise InputError(f"subgraph_type={self._form!r} is not possible with links", 'Take "directional".')
        if others.pop("edge_label_time", None) is not None:
            raise InputError("edge_label_time is not possible: times are not sampled by", "Leave it out.")
        check_others("LinkNeighborLoader", others)
        if neg_sampling_ratio:
            neg_sampling = NegativeSampling("binary", neg_sampling_ratio)
        self._weight_attr = weight_attr
        self.transform = transform
        self._choices: dict[str, Any] = {
            "neg_sampling": neg_sampling,
            "exclude_seed_edges": exclude_seed_edges,
            "reverse": reverse,
            "original": original,
            "replace": replace,
            "sampler": sampler if weight_attr is None else by_weight(sampler, weight_attr),
            "seed": seed,
        }
        self._fanouts = num_neighbors
        super().__init__(
            graph,
            num_neighbors,
            edge_label_index,
            edge_label,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            layer_dependent=False,
            merged=True,
            features=True,
            **self._choices,
        )

    def __call__(self, index: Any) -> Any:
        """A batch of the links at these positions, int64 [n], a list, mask or slice, as PyG's loaders give it. Collective."""
        positions = rows_of(index, self._links.size, "links").ids.cpu()
        if not len(positions):
            raise InputError("a batch of no links was asked for", "Give at least one position.")
        labels = None if self._edge_label is None else self._edge_label[positions.to(self._edge_label.device)]
        chosen = self._links.at(positions.numpy())
        choices = self._choices | ({} if self._negatives is None else {"neg_sampling": self._negatives.at(positions)})
        size = -(-len(positions) // process().size)
        loader = LinkNeighborLoader(
            self._graph, self._fanouts, chosen, labels, batch_size=size, subgraph_type=self._form, **choices
        )
        batch = next(iter(loader))
        loader.close()
        on_edges = batch if self._links.relation is None else batch[self._links.relation]
        on_edges.input_id = positions.to(on_edges.input_id.device)[on_edges.input_id]
        return batch if self.transform is None else self.transform(batch)

    def __iter__(self) -> Iterator[Any]:
        for made in self._batches():
            yield self._finished(self._homogeneous(made) if self._graph._types is None else self._of_types(made), made)

    def _homogeneous(self, made: _core.NodeBatch) -> Any:
        from torch_geometric.data import Data

        data = Data(edge_index=to_torch(made.edge_index), num_nodes=made.num_nodes)
        if made.features is not None:
            data.x = to_torch(made.features)
        data.n_id, data.original_ids = to_torch(made.nodes), to_torch(made.original_ids)
        if made.edge_ids is not None:
            data.e_id = to_torch(made.edge_ids)
        data.num_sampled_nodes, data.num_sampled_edges = made.nodes_of_hop, made.edges_of_hop
        if self._form == "bidirectional":
            bidirectional(data)
        if process().num_machines == 1 and (self._graph._core.has_labels or self._graph._attributes.targets is not None):
            data.y = self._graph.labels[data.n_id]
        self._graph._attributes.complete(data)
        self._set_fields(data, data, data, made, lambda places: places)
        return data

    def _of_types(self, made: _core.NodeBatch) -> Any:
        assert self._graph._types is not None and self._links.relation is not None
        data, _, local = self._graph._types.numbered(made)
        data.input_type = self._links.relation
        source, _, destination = self._links.relation
        self._set_fields(data[self._links.relation], data[source], data[destination], made, lambda places: local[places])
        return data


class LinkLoader(_LinkLoader):
    """Batches of blocks for links, as NodeLoader has them for nodes, whose every hop chooses neighbors of all nodes known by then.

    Yields BlockBatch, or with `features=True` (BlockBatch, x). output_nodes are the distinct ends of links and negatives, and
    the batch has LinkNeighborLoader's fields: edge_label_index and edge_label, or src_index, dst_pos_index and dst_neg_index,
    as places among them. Arguments are those of LinkNeighborLoader; `fanouts` are the seeds' first.
    """

    def __init__(
        self,
        graph: Graph,
        edge_label_index: Any = None,
        edge_label: Any = None,
        *,
        fanouts: Fanouts,
        neg_sampling: Any = None,
        exclude_seed_edges: bool = True,
        reverse: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        replace: bool = False,
        sampler: str | NeighborChooser = "uniform",
        layer_dependent: bool = False,
        seed: int | None = 0,
        features: bool = False,
        transposes: bool = True,
        original: bool | None = None,
        **others: Any,
    ) -> None:
        check_others("LinkLoader", others)
        self._features = features
        super().__init__(
            graph,
            fanouts,
            edge_label_index,
            edge_label,
            neg_sampling,
            exclude_seed_edges,
            reverse,
            original,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            replace=replace,
            sampler=sampler,
            layer_dependent=layer_dependent,
            seed=seed,
            merged=False,
            features=features,
            transposes=transposes,
        )

    def __iter__(self) -> Iterator[Any]:
        for made in self._batches():
            sample = self._of_blocks(made)
            self._set_fields(sample, sample, sample, made, lambda places: places)
            yield (sample, to_torch(made.features)) if self._features else sample
