# SPDX-License-Identifier: Apache-2.0
"""Where features may lie that a GPU trains on: PyTorch-Direct's comparison, an epoch of GraphSAGE on the shape of Reddit.

    direct.py [--graph synthetic:reddit] [--fanouts 25,10] [--batch-size 1000] [--hidden 256] [--seconds 6] [--split 10,90] [--json FILE]

    gathered and copied     the CPU gathers a batch's rows, and copies them to the GPU
    unified                 the GPU reads them where they lie, in host memory
    unified, split of SMs   and gathers the next batch on SMs of its own, while others train on this one
    on the GPU              all rows lie there

Fanouts are the seeds' first. Prints seconds per epoch, the median of three runs, as a table and bars, and the share of the first. A run
is an epoch, or as many steps of one as all three do in --seconds, at least 12. Before are steps that are not counted, after which losses
are the same. On the CPU there is nothing to compare.
"""

import argparse
import itertools
import json
import statistics
import sys
import time

import torch
from sage import Sage
from torch.nn.functional import cross_entropy

import strata
from strata.nn import SAGEConv

SKIPPED = 77
UNCOUNTED = 12  # steps
RUNS = 3


def all_rows(graph):
    """All features, in memory of the CPU."""
    ids = torch.arange(graph.num_nodes)
    return torch.cat([graph.features[some].cpu() for some in ids.split(1 << 16)])


def in_turns(loader, rows):
    for batch in loader:
        yield batch, rows(batch.input_nodes)


def beside(loader, rows, split):
    """The rows of the next batch are gathered on the split's stream for loading."""
    stream, training = split.loading_stream, torch.cuda.current_stream()

    def gathered(batches):
        with torch.cuda.stream(stream):
            batch = next(batches, None)
            return None if batch is None else (batch, rows(batch.input_nodes), stream.record_event())

    batches = iter(loader)
    coming = gathered(batches)
    while coming is not None:
        batch, x, ready = coming
        training.wait_event(ready)
        coming = gathered(batches)
        yield batch, x
        stream.wait_stream(training)  # before the batch's memory is used again


def trainer(graph, labels, options):
    torch.manual_seed(1)
    sizes = [graph.num_features] + [options.hidden] * (len(options.fanouts) - 1) + [graph.num_classes]
    model = Sage(SAGEConv, sizes).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, fused=True)

    def step(batch, x):
        optimizer.zero_grad()
        calls = [lambda layer, rows, block=block: layer(rows, block) for block in batch.blocks]
        loss = cross_entropy(model(x, calls), labels[batch.output_nodes])
        loss.backward()
        optimizer.step()
        return loss

    return step


def run(batches, step, steps):
    """Seconds a step, and the last loss."""
    torch.cuda.synchronize()
    begun, count = time.perf_counter(), 0
    for batch, x in itertools.islice(batches(), steps):
        loss = step(batch, x)
        count += 1
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / count, float(loss.detach())


def measured(batches, step, options, epoch_steps):
    """Seconds an epoch, and the loss after the first steps."""
    _, loss = run(batches, step, UNCOUNTED)
    seconds, _ = run(batches, step, UNCOUNTED)
    steps = max(UNCOUNTED, min(epoch_steps, int(options.seconds / RUNS / seconds)))
    return statistics.median(run(batches, step, steps)[0] for _ in range(RUNS)) * epoch_steps, loss


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="synthetic:reddit")
    parser.add_argument("--fanouts", type=lambda text: [int(fanout) for fanout in text.split(",")], default=[25, 10])
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=6, help="for the three runs of a way whose epochs take longer")
    parser.add_argument("--split", type=lambda text: [int(share) for share in text.split(",")], default=[10, 90])
    parser.add_argument("--json", help="a file for the rows")
    return parser.parse_args()


def main():
    options = parsed()
    if not torch.cuda.is_available() or not strata.with_cuda:
        print("-- skipped: there is no GPU")
        return SKIPPED
    torch.backends.cuda.matmul.allow_tf32 = True
    graph = strata.load(options.graph, edge_ids=False)
    x = all_rows(graph)
    labels = graph.labels[torch.arange(graph.num_nodes)].cuda()
    unified, on_gpu = strata.unified(x, check=False), x.cuda()
    split = strata.SmSplit(*options.split)
    ways = {
        "gathered and copied": (lambda ids: x[ids.cpu()].cuda(), None),
        "unified": (lambda ids: unified[ids], None),
        "unified, split of SMs": (lambda ids: unified[ids], split),
        "on the GPU": (lambda ids: on_gpu[ids], None),
    }
    results = {}
    for name, (rows, on_split) in ways.items():
        loader = strata.NodeLoader(graph, "train", fanouts=options.fanouts, batch_size=options.batch_size, shuffle=True)
        step = trainer(graph, labels, options)
        if on_split is None:
            seconds, loss = measured(lambda: in_turns(loader, rows), step, options, len(loader))
        else:
            loader.run_on(on_split)
            with on_split.training():
                seconds, loss = measured(lambda: beside(loader, rows, on_split), step, options, len(loader))
        loader.close()
        results[name] = {"seconds": seconds, "loss": loss}
        share = seconds / results["gathered and copied"]["seconds"]
        print(f"{name:22} {seconds:7.3f} s an epoch  {share:5.2f}  {'#' * round(40 * share):40}  loss {loss:.4f}", flush=True)
    graph.close()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
