# SPDX-License-Identifier: Apache-2.0
"""Layers with torch_geometric's constructor arguments, parameters and results, on Strata's kernels.

    from strata.nn import SAGEConv          # instead of torch_geometric.nn

    out = SAGEConv(100, 256)(batch.x, batch.edge_index)

Their state_dict is that of torch_geometric's layer of the same name and arguments, so that weights move both ways. What a
layer cannot do is refused with strata.InputError, when it is made or called.

All of them take the edges as

- edge_index: int64 [2, E], sources and destinations, in any order; of x [N, F], or of (x_src, x_dst);
- a strata.Block, with x [num_src, F], whose first num_dst rows are the destinations';
- an EdgeLists, which is what layers make of either.

x is float32 or bfloat16, on the CPU or a GPU; sums are made in float32. Sums take a node's edges in their order: results
have the same bits in every run. torch.compile takes the layers without a graph break. Under torch.autocast they give what it
is set to, bfloat16 or float16, and x may be float16.
Layers with DGL's arguments, which are called as layer(block, x), are those of strata.dgl.nn.
"""

from typing import TYPE_CHECKING

from strata._missing import attributes_of
from strata.nn.decoders import ComplEx, DistMult, DotProduct, MLPDecoder, RotatE, TransE
from strata.nn.edges import EdgeLists
from strata.nn.gat import GATConv
from strata.nn.gcn import GCNConv
from strata.nn.gin import GINConv
from strata.nn.hetero import HeteroConv
from strata.nn.hgt import HGTConv
from strata.nn.losses import TargetScale, focal_loss, link_loss, quantile_loss
from strata.nn.rgat import RGATConv
from strata.nn.rgcn import RGCNConv
from strata.nn.sage import SAGEConv
from strata.nn.typed_linear import HeteroDictLinear, HeteroLinear

__all__ = [
    "ComplEx",
    "DistMult",
    "DotProduct",
    "EdgeLists",
    "GATConv",
    "GCNConv",
    "GINConv",
    "HGTConv",
    "HeteroConv",
    "HeteroDictLinear",
    "HeteroLinear",
    "MLPDecoder",
    "RGATConv",
    "RGCNConv",
    "RotatE",
    "SAGEConv",
    "TargetScale",
    "TransE",
    "focal_loss",
    "link_loss",
    "quantile_loss",
]

if not TYPE_CHECKING:
    _PYG = "torch_geometric.nn has it, and takes batch.edge_index, or block.edge_index with size=block.size"
    _NAMES = "GraphSAGE GCN GAT GIN GATv2Conv TransformerConv GraphConv ChebConv EdgeConv Linear MLP Sequential"
    __getattr__ = attributes_of(__name__, dict.fromkeys(_NAMES.split(), _PYG))
