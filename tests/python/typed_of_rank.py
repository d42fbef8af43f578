# SPDX-License-Identifier: Apache-2.0
"""A rank of test_embedding.py: trains layers over relations, and rows that are learned for a type without features, under DDP on a graph
of several types. Rank 0 prints the loss of every step over all seeds.

    typed_of_rank.py FILE EPOCHS

Writes the rows to FILE.
"""

import sys

import torch
import torch.distributed as distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import HeteroData

import strata
from strata import nn

COUNTS = {"paper": 300, "author": 120, "venue": 6}


def graph_of():
    random = torch.Generator().manual_seed(1)
    data = HeteroData()
    for kind, count in COUNTS.items():
        data[kind].num_nodes = count
    data["paper"].y = torch.randint(4, (300,), generator=random)
    for source, name, destination, count in (
        ("author", "writes", "paper", 900),
        ("paper", "written_by", "author", 900),
        ("venue", "shows", "paper", 40),  # most batches of a rank have few venues, some have none
        ("paper", "cites", "paper", 600),
    ):
        ends = [torch.randint(COUNTS[end], (count,), generator=random) for end in (source, destination)]
        data[source, name, destination].edge_index = torch.stack(ends)
    return strata.from_pyg(data), torch.randn(300 + 120, 8, generator=random)


class Model(torch.nn.Module):
    def __init__(self, graph):
        super().__init__()
        self.venues = strata.Embedding(graph, 8, node_type="venue", lr=0.05, init=lambda rows: rows.fill_(0.1))
        kinds = graph.edge_types
        self.layers = torch.nn.ModuleList(
            [
                nn.HeteroConv({kind: nn.GATConv(8, 4, heads=2, add_self_loops=False) for kind in kinds}),
                nn.HeteroConv({kind: nn.SAGEConv(8, 8) for kind in kinds}, "mean"),
                nn.HGTConv(8, 4, graph.metadata(), heads=2),
            ]
        )

    def forward(self, nodes, features, blocks):
        of_venues = (blocks[0].types.of_nodes == 2).nonzero().view(-1)
        x = nodes.new_zeros((len(nodes), 8), dtype=torch.float32)
        others = (blocks[0].types.of_nodes != 2).nonzero().view(-1)
        x = x.index_copy(0, others, features[nodes[others]])
        x = x.index_copy(0, of_venues, self.venues(nodes[of_venues] - (300 + 120)))
        for layer, block in zip(self.layers, blocks):
            x = layer(x, block).relu()
        return x


def main():
    file, epochs = sys.argv[1], int(sys.argv[2])
    process = strata.init("cpu")
    strata.init_process_group()
    torch.manual_seed(process.rank)
    graph, features = graph_of()
    model = Model(graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    states = torch.Generator().manual_seed(7)
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=states) / 3)
    model.venues.follow(optimizer, scale=1 / process.size)
    parallel = DistributedDataParallel(model)
    parallel.register_comm_hook(None, allreduce_hook)
    loader = strata.NodeLoader(graph, "paper", fanouts=[4, 3, 2], batch_size=60 // process.size, shuffle=True, seed=3)
    for batch in (batch for _ in range(epochs) for batch in loader):
        optimizer.zero_grad()
        out = parallel(batch.input_nodes, features, batch.blocks)
        loss = cross_entropy(out, graph._types.labels(batch.output_nodes, loader._seeds), reduction="sum") * batch.sum_scale
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        distributed.all_reduce(total)
        if process.rank == 0:
            print(float(total) / process.size, flush=True)
    model.venues.save(file)
    del parallel  # before the group, whose threads it would wait for with Python's lock
    distributed.destroy_process_group()
    graph.close()


if __name__ == "__main__":
    main()
