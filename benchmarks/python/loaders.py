# SPDX-License-Identifier: Apache-2.0
"""The cost of Python: batches without a model, and PyG's GraphSAGE on them, beside what C++ and batches in memory take.

    loaders.py [--graph SPEC] [--fanouts 15,10,5] [--batch-size 1024] [--hidden 256] [--batches N] [--json FILE]

Under mpirun all ranks take part, and the first one prints. Times are medians of three runs, after one that is not counted.
"""

import argparse
import itertools
import json
import statistics
import time

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GraphSAGE

import strata
from strata._arrays import current_stream

PRODUCTS = "synthetic:products"


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(run):
    """Seconds per batch: the median of three runs after one more, and the spread."""
    seconds = []
    for _ in range(4):
        synchronize()
        begun = time.perf_counter()
        count = run()
        synchronize()
        seconds.append((time.perf_counter() - begun) / count)
    return statistics.median(seconds[1:]), max(seconds[1:]) / min(seconds[1:])


def take(loader, batches):
    return sum(1 for _ in itertools.islice(loader, batches))


def take_core(core, batches):
    """Batches of C++ without a tensor made of them."""
    core.begin(0)
    count = 0
    while count < batches and (batch := core.next(current_stream())) is not None:
        del batch
        count += 1
    core.end()
    return count


class Sage:
    def __init__(self, graph, layers, hidden, device):
        self.model = GraphSAGE(graph.num_features, hidden, layers, graph.num_classes).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003, fused=device.startswith("cuda"))

    def step(self, batch):
        self.optimizer.zero_grad()
        out = self.model(batch.x, batch.edge_index)[: batch.batch_size]
        cross_entropy(out, batch.y).backward()
        self.optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph", default=PRODUCTS)
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--json")
    options = parser.parse_args()
    fanouts = [int(fanout) for fanout in options.fanouts.split(",")]
    torch.backends.cuda.matmul.allow_tf32 = True
    graph = strata.load(options.graph, edge_ids=False)
    device = strata.process().device
    common = {"batch_size": options.batch_size, "shuffle": True}
    merged = strata.NeighborLoader(graph, fanouts, "train", **common)
    blocks = strata.NodeLoader(graph, "train", fanouts=fanouts, features=True, **common)
    rows = {}

    def row(name, run, beside=None):
        seconds, spread = timed(run)
        rows[name] = {"ms": 1e3 * seconds, "spread": spread}
        if beside:
            rows[name] |= {"beside": beside, "ratio": 1e3 * seconds / rows[beside]["ms"]}

    row("C++: merged hops", lambda: take_core(merged._core, options.batches))
    row("NeighborLoader", lambda: take(merged, options.batches), "C++: merged hops")
    row("C++: blocks", lambda: take_core(blocks._core, options.batches))
    row("NodeLoader", lambda: take(blocks, options.batches), "C++: blocks")

    kept = list(itertools.islice(merged, 20))
    on_kept, on_loader = (Sage(graph, len(fanouts), options.hidden, device) for _ in range(2))

    def train_on(batches, sage):
        count = 0
        for batch in batches:
            sage.step(batch)
            count += 1
        return count

    row("PyG's SAGE on 20 batches in memory", lambda: train_on(kept * 3, on_kept))
    row("PyG's SAGE on NeighborLoader", lambda: train_on(itertools.islice(merged, 60), on_loader), "PyG's SAGE on 20 batches in memory")

    if strata.process().rank == 0:
        print(f"{options.graph} {options.fanouts} batch {options.batch_size} on {device}, {len(merged)} batches an epoch")
        for name, values in rows.items():
            ratio = f"{values['ratio']:.2f} of '{values['beside']}'" if "ratio" in values else ""
            print(f"{name:36} {values['ms']:8.3f} ms per batch (spread {values['spread']:.2f})  {ratio}")
        if options.json:
            with open(options.json, "w") as file:
                json.dump(rows, file, indent=1)
    merged.close()
    blocks.close()
    graph.close()


if __name__ == "__main__":
    main()
