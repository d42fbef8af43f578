# SPDX-License-Identifier: Apache-2.0
"""Batches of other edges than the sampled ones, by PyG's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from strata.graph import Graph


def bidirectional(batch: Data) -> None:
    """Adds the opposite of each edge, with its e_id; every pair of nodes is there once, by destination and source.

    An edge that was sampled itself keeps its own e_id, and the first of several.
    """
    import torch

    edges = torch.cat([batch.edge_index, batch.edge_index.flip(0)], dim=1)
    order = torch.argsort(edges[1] * batch.num_nodes + edges[0], stable=True)
    edges = edges[:, order]
    first = torch.ones(len(order), dtype=torch.bool, device=order.device)
    first[1:] = (edges[:, 1:] != edges[:, :-1]).any(dim=0)
    if "e_id" in batch:
        batch.e_id = torch.cat([batch.e_id, batch.e_id])[order[first]]
    batch.edge_index = edges[:, first]
    del batch.num_sampled_nodes, batch.num_sampled_edges


def induced(batch: Data, graph: Graph) -> None:
    """All edges of the graph among the batch's nodes, destination by destination. Reads all in-edges of these nodes."""
    import torch

    nodes = batch.n_id.cpu()
    lists = graph.in_edges(nodes)
    ascending, order = nodes.sort()
    sources = torch.from_numpy(lists.sources)
    place = torch.searchsorted(ascending, sources).clamp_(max=max(0, len(nodes) - 1))
    inside = ascending[place] == sources if len(nodes) else torch.zeros(0, dtype=torch.bool)
    ends = torch.repeat_interleave(torch.arange(len(nodes)), torch.from_numpy(lists.counts))
    device = batch.n_id.device
    batch.edge_index = torch.stack([order[place[inside]], ends[inside]]).to(device)
    if lists.edge_ids is not None:
        batch.e_id = torch.from_numpy(lists.edge_ids)[inside].to(device)
    del batch.num_sampled_nodes, batch.num_sampled_edges
