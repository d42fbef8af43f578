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

from typing import TYPE_CHECKING

from strata._missing import attributes_of
from strata.dgl import dataloading, negative_sampler, nn, sampling, utils
from strata.dgl.blocks import EID, NID, Block, to_block
from strata.dgl.dataloading import (
    BlockSampler,
    DataLoader,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
    NodeDataLoader,
    as_edge_prediction_sampler,
)
from strata.dgl.graphs import DGLGraph
from strata.dgl.sampling import Frontier, in_subgraph, sample_neighbors
from strata.dgl.typed_blocks import HeteroBlock
from strata.dgl.typed_graphs import HeteroGraph

__all__ = [
    "EID",
    "NID",
    "Block",
    "BlockSampler",
    "DGLGraph",
    "DataLoader",
    "Frontier",
    "HeteroBlock",
    "HeteroGraph",
    "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler",
    "NeighborSampler",
    "NodeDataLoader",
    "as_edge_prediction_sampler",
    "dataloading",
    "in_subgraph",
    "negative_sampler",
    "nn",
    "sample_neighbors",
    "sampling",
    "to_block",
    "utils",
]

_TYPES = "strata.from_pyg(HeteroData) makes a graph of several types, and strata.from_dgl(graph) takes a heterograph of DGL's"
_BEFORE = "change the graph with DGL or PyG, and give strata.from_dgl(graph) or from_pyg(data) the result"

if not TYPE_CHECKING:
    __getattr__ = attributes_of(
        __name__,
        {
            "graph": "strata.from_tensors(torch.stack((src, dst)), x, y, train=..., num_nodes=...) makes one",
            "as_heterograph": "leave the call out: there is one kind of graphs",
            "create_block": "to_block(Frontier((src, dst)), dst_nodes) makes one",
            "data": "strata.load() reads data sets, and strata.from_dgl(graph) takes those of DGL",
            "function": "message functions are DGL's, for block.to_dgl(); strata.dgl.nn has layers",
            "distributed": 'strata.load("parts") is a graph of several machines; strata-partition build makes its parts',
            "multiprocessing": "torch.multiprocessing hands graphs to processes that it spawns",
            "seed": "loaders take ddp_seed, and sample_neighbors() outside of them torch.manual_seed()",
            "random_walk": "derive from strata.NeighborChooser, or sample walks with DGL",
        }
        | dict.fromkeys(("heterograph", "DGLHeteroGraph"), _TYPES)
        | {"HeteroGraphConv": "strata.dgl.nn has it", "to_homogeneous": "a strata.Block is over the nodes of all types"}
        | {"EdgeDataLoader": "DataLoader takes as_edge_prediction_sampler(sampler)"}
        | dict.fromkeys(
            (
                "add_self_loop",
                "remove_self_loop",
                "add_reverse_edges",
                "to_bidirected",
                "to_simple",
                "node_subgraph",
                "reverse",
            ),
            _BEFORE,
        ),
    )
