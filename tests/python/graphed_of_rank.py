# SPDX-License-Identifier: Apache-2.0
"""A rank of test_graphed.py: trains under DDP with and without padding, and compares the losses.

    graphed_of_rank.py cpu|cuda|failing

Rank 1 has fewer seeds, and its padding is measured on batches that are too small, so that ranks alone would go different ways.
"""

import contextlib
import os
import sys

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


def make_model(device):
    torch.manual_seed(1)
    with torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else contextlib.nullcontext():
        return DistributedDataParallel(Model().to(device))


def losses_of(model, loader, graphed, shrink, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(item):
        batch, x, y = item
        optimizer.zero_grad()
        out = model(x, batch.blocks)[: len(batch.output_nodes)]
        loss = cross_entropy(out, y, reduction="sum") * batch.sum_scale
        loss.backward()
        optimizer.step()
        return loss

    run = strata.graphed(step, loader) if graphed else step
    first = next(iter(loader))
    if shrink:
        run._largest = BatchSizes((8, 10, 20), (10, 20))
        run._pad(first)
    loader.set_epoch(0)
    losses = torch.tensor([float(run(batch).detach()) for _ in range(epochs) for batch in loader])
    together = losses.to(next(model.parameters()).device)
    distributed.all_reduce(together)
    return together.cpu(), (run.counts if graphed else None)


class FailingRecorder:
    """Of rank 1, in the place of one for a GPU."""

    is_warm = True

    def is_outdated(self):
        return False

    def forget(self):
        pass

    def has_recording_of(self, buffer):
        return False

    def record(self, buffer):
        if strata.process().rank == 1:
            raise ValueError("of the step itself")

    def replay(self, buffer):
        raise AssertionError("a replay waits for rank 1")


def fail():
    strata.init("cpu")
    graph = make_graph()
    loader = strata.NodeLoader(graph, "train", fanouts=[5, 3], batch_size=20, features=True)
    step = strata.graphed(lambda item: None, loader)
    step._recorder = FailingRecorder()
    batch = next(iter(loader))
    expected = (strata.InputError, "another rank could not record") if strata.process().rank == 0 else (ValueError, "of the step")
    for _ in range(2):
        try:
            step(batch)
        except expected[0] as error:
            assert str(error).startswith(expected[1]), error
        else:
            raise AssertionError("nothing was raised")
    strata.process().barrier()
    if strata.process().rank == 0:
        print("both ranks know")
    graph.close()


def main():
    if sys.argv[1] == "failing":
        return fail()
    device, epochs, tolerance = ("cuda", 12, 1e-5) if sys.argv[1] == "cuda" else ("cpu", 4, 1e-6)
    if device == "cuda" and torch.cuda.device_count() == 1:  # else NCCL refuses two ranks on one GPU
        os.environ["NCCL_HOSTID"] = os.environ["OMPI_COMM_WORLD_RANK"]
    process = strata.init(device)
    strata.init_process_group()
    graph = make_graph()
    nodes = torch.arange(100) if process.rank == 0 else torch.arange(100, 160)
    loader = strata.NodeLoader(graph, nodes, fanouts=[5, 3], batch_size=20, features=True, deal=False)
    results = []
    for graphed in (False, True):
        results.append(losses_of(make_model(device), loader, graphed, graphed and process.rank == 1, epochs))
    (expected, _), (found, counts) = results
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
    assert expected[0] > expected[-2] and len(expected) == 5 * epochs, expected
    # Eight of rank 1's batches did not fit; rank 0 went along.
    assert counts.unpadded >= 7, counts
    if device == "cuda":
        assert counts.recorded >= 1 and counts.replayed > 10, counts
    else:
        assert counts.padded == len(expected) - counts.unpadded > 5, counts
    distributed.destroy_process_group()
    if process.rank == 0:
        print("losses are equal")
    graph.close()


if __name__ == "__main__":
    main()
