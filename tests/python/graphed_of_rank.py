# SPDX-License-Identifier: Apache-2.0
"""A rank of test_graphed.py: trains under DDP with and without padding, and compares the losses.

Rank 1 has fewer seeds, and its padding is measured on batches that are too small, so that ranks alone would go different ways.
"""

import torch
import torch.distributed as distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import strata
from strata._padding import BatchSizes
from strata.nn import SAGEConv


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(12, 8), SAGEConv(8, 5)])

    def forward(self, x, blocks):
        return self.layers[1](self.layers[0](x, blocks[0]).relu(), blocks[1])


def make_graph():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(400, (2, 3000), generator=generator)
    x, y = torch.randn(400, 12, generator=generator), torch.randint(5, (400,), generator=generator)
    return strata.from_tensors(edges, x, y, train=torch.arange(160))


def losses_of(model, loader, graphed, shrink):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(item):
        batch, x, y = item
        optimizer.zero_grad()
        loss = cross_entropy(model(x, batch.blocks)[: len(batch.output_nodes)], y) * batch.loss_scale
        loss.backward()
        optimizer.step()
        return loss.nan_to_num()  # the mean over no seeds

    run = strata.graphed(step, loader) if graphed else step
    if shrink:
        run._largest = BatchSizes((8, 10, 20), (10, 20))
        run._pad(next(iter(loader)))
    loader.set_epoch(0)
    losses = torch.tensor([float(run(batch).detach()) for _ in range(4) for batch in loader])
    distributed.all_reduce(losses)
    return losses, (run.counts if graphed else None)


def main():
    process = strata.init("cpu")
    strata.init_process_group()
    graph = make_graph()
    nodes = torch.arange(100) if process.rank == 0 else torch.arange(100, 160)
    loader = strata.NodeLoader(graph, nodes, fanouts=[5, 3], batch_size=20, features=True, deal=False)
    results = []
    for graphed in (False, True):
        torch.manual_seed(1)
        model = DistributedDataParallel(Model())
        results.append(losses_of(model, loader, graphed, graphed and process.rank == 1))
    (expected, _), (found, counts) = results
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert expected[0] > expected[-2] and len(expected) == 20, expected
    # Eight of rank 1's batches did not fit; rank 0 went along.
    assert counts.unpadded >= 7 and counts.padded == 20 - counts.unpadded > 5, counts
    del model  # before the group, whose threads it would wait for with Python's lock
    distributed.destroy_process_group()
    if process.rank == 0:
        print("losses are equal")
    graph.close()


if __name__ == "__main__":
    main()
