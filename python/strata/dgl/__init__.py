# SPDX-License-Identifier: Apache-2.0
"""DGL's names for graphs of Strata, so that DGL's scripts run with changed imports; DGL itself need not be installed.

    import strata
    import strata.dgl as dgl

    class MultiLayerNeighborSampler(dgl.dataloading.BlockSampler):
        def __init__(self, fanouts):
            super().__init__(len(fanouts), return_eids=False)
            self.fanouts = fanouts

        def sample_frontier(self, layer_id, g, seed_nodes):
            return dgl.sampling.sample_neighbors(g, seed_nodes, self.fanouts[layer_id])

    graph = strata.load("parts")
    loader = dgl.dataloading.NodeDataLoader(graph, nids, MultiLayerNeighborSampler([4, 4, 4]), batch_size=1024, shuffle=True)
    for input_nodes, output_nodes, blocks in loader:
        predictions = model(blocks, graph.features[input_nodes])
        loss = F.cross_entropy(predictions, graph.labels[output_nodes])

Fanouts are in DGL's order: the first is that of the layer farthest from the seeds. Blocks are DGL's own where the program has
imported dgl; otherwise strata.dgl.Block, which layers of strata.nn and, by edge_index, of torch_geometric take.
"""

from strata.dgl import dataloading, sampling
from strata.dgl.blocks import EID, NID, Block, to_block
from strata.dgl.dataloading import (
    BlockSampler,
    DataLoader,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
    NodeDataLoader,
)
from strata.dgl.sampling import Frontier, in_subgraph, sample_neighbors

__all__ = [
    "EID",
    "NID",
    "Block",
    "BlockSampler",
    "DataLoader",
    "Frontier",
    "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler",
    "NeighborSampler",
    "NodeDataLoader",
    "dataloading",
    "in_subgraph",
    "sample_neighbors",
    "sampling",
    "to_block",
]
