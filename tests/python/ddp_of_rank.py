# SPDX-License-Identifier: Apache-2.0
"""A rank of test_launch.py: trains PyG's SAGEConv on blocks under DDP, and rank 0 prints the loss of every step over all seeds.

    ddp_of_rank.py PARTS
"""

import sys

import torch
import torch.distributed as distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import SAGEConv

import strata


class Model(torch.nn.Module):
    def __init__(self, graph):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(graph.num_features, 16), SAGEConv(16, graph.num_classes)])

    def forward(self, x, blocks):
        for layer, block in zip(self.layers, blocks):
            x = layer((x, x[: block.num_dst]), block.edge_index, size=block.size).relu()
        return x


def main():
    process = strata.init("cpu")
    strata.init_process_group()
    torch.manual_seed(1)
    graph = strata.load(sys.argv[1])
    model = DistributedDataParallel(Model(graph))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = strata.NodeLoader(
        graph, "train", fanouts=[5, 3], batch_size=60 // process.size, shuffle=True, seed=3, features=True
    )
    for _ in range(2):
        for batch, x, y in loader:
            optimizer.zero_grad()
            out = model(x, batch.blocks)
            loss = cross_entropy(out, y, reduction="sum") * batch.sum_scale
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            distributed.all_reduce(total)
            if process.rank == 0:
                print(float(total) / process.size, flush=True)
    del model  # before the group, whose threads it would wait for with Python's lock
    distributed.destroy_process_group()
    graph.close()


if __name__ == "__main__":
    main()
