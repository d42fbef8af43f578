# SPDX-License-Identifier: Apache-2.0
"""GraphSAGE in Python, from a loop over merged hops to strata.train(): milliseconds per step of each way, in one table.

    ladder.py [--graph SPEC] [--fanouts 15,10,5] [--batch-size 1024] [--hidden 256] [--steps N] [--rounds 3]
              [--only WORD ...] [--json FILE]
    mpirun -n 2 python ladder.py ...        torchrun --nproc_per_node 2 ladder.py ...

A loop's time is the median of rounds of an epoch, or of N steps, after 30 steps that are not counted, in which recordings are made;
that of strata.fit and strata.train the median of epochs after the first two. All of them train on the same seeds. --only takes
the rows whose names have one of the words. Under several ranks models train under DistributedDataParallel, and the first rank prints.
"""

import argparse
import collections
import contextlib
import itertools
import json
import statistics
import tempfile
import time

import torch
from sage import Sage
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE
from torch_geometric.nn import SAGEConv as PygConv

import strata
from strata.nn import SAGEConv

UNCOUNTED = 30
UNCOUNTED_EPOCHS = 2


class OnBlocks(Sage):
    def forward(self, x, blocks):
        if self.apart:
            calls = [lambda layer, x, block=block: layer((x, x[: block.num_dst]), block.edge_index, size=block.size) for block in blocks]
        else:
            calls = [lambda layer, x, block=block: layer(x, block) for block in blocks]
        return super().forward(x, calls)


class OnMerged(Sage):
    def forward(self, x, edge_index):
        return super().forward(x, [lambda layer, x: layer(x, edge_index)] * len(self.layers))


class Ladder:
    def __init__(self, options):
        self.options, self.process = options, strata.process()
        self.on_gpu = self.process.device.startswith("cuda")
        self.graph = strata.load(options.graph, edge_ids=False)
        self.sizes = [self.graph.num_features] + [options.hidden] * (len(options.fanouts) - 1) + [self.graph.num_classes]
        common = {"batch_size": options.batch_size, "shuffle": True, "drop_last": True}
        self.merged = strata.NeighborLoader(self.graph, options.fanouts, "train", **common)
        self.blocks = strata.NodeLoader(self.graph, "train", fanouts=options.fanouts, features=True, **common)

    def ways(self):
        """Names, and functions that give seconds per step and the last loss."""
        pyg = lambda: GraphSAGE(self.sizes[0], self.options.hidden, len(self.options.fanouts), self.sizes[-1])  # noqa: E731
        merged, blocks = self.merged, self.blocks
        return {
            "PyG, merged hops": lambda: self.loop(pyg(), merged),
            "strata.nn, merged hops": lambda: self.loop(OnMerged(SAGEConv, self.sizes), merged),
            "PyG, trimmed": lambda: self.loop(pyg(), merged, trims=True),
            "PyG, blocks": lambda: self.loop(OnBlocks(PygConv, self.sizes), blocks),
            "strata.nn, blocks": lambda: self.loop(OnBlocks(SAGEConv, self.sizes), blocks),
            "PyG, trimmed, recorded": lambda: self.loop(pyg(), merged, trims=True, recorded=True),
            "PyG, blocks, recorded": lambda: self.loop(OnBlocks(PygConv, self.sizes), blocks, recorded=True),
            "strata.nn, blocks, recorded": lambda: self.loop(OnBlocks(SAGEConv, self.sizes), blocks, recorded=True),
            "strata.fit, PyG": lambda: self.fit(pyg()),
            "strata.fit, strata.nn on blocks": lambda: self.fit(OnBlocks(SAGEConv, self.sizes)),
            "strata.train": self.train,
        }

    def loop(self, model, loader, trims=False, recorded=False):
        step = self.step_of(model.to(self.process.device), trims)
        over = strata.graphed(step, loader).over if recorded else lambda batches: map(step, batches)
        count = min(self.options.steps or len(loader), len(loader))
        epochs = itertools.chain.from_iterable(over(loader) for _ in itertools.count())
        last_of(itertools.islice(epochs, UNCOUNTED))
        seconds = []
        for _ in range(self.options.rounds):
            self.wait()
            begun = time.perf_counter()
            loss = last_of(itertools.islice(over(loader), count))
            self.wait()
            seconds.append((time.perf_counter() - begun) / count)
        return statistics.median(seconds), float(loss.detach())

    def step_of(self, model, trims):
        if self.process.size > 1:
            with torch.cuda.stream(torch.cuda.Stream()) if self.on_gpu else contextlib.nullcontext():
                model = DistributedDataParallel(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.003, fused=self.on_gpu, capturable=self.on_gpu)

        def on_merged(batch):
            hops = {}
            if trims:
                hops = {"num_sampled_nodes_per_hop": batch.num_sampled_nodes, "num_sampled_edges_per_hop": batch.num_sampled_edges}
            return model(batch.x, batch.edge_index, **hops)[: batch.batch_size], batch.y, batch.loss_scale

        def on_blocks(item):
            batch, x, y = item
            return model(x, batch.blocks), y, batch.loss_scale

        def step(item):
            optimizer.zero_grad()
            out, y, scale = on_blocks(item) if isinstance(item, tuple) else on_merged(item)
            loss = cross_entropy(out, y) * scale
            loss.backward()
            optimizer.step()
            return loss

        return step

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize()
        self.process.barrier()

    def fit(self, model):
        with self.folder() as folder:
            result = strata.fit(
                model, self.graph, fanouts=self.options.fanouts, batch_size=self.options.batch_size, output=folder, progress="off",
                epochs=UNCOUNTED_EPOCHS + self.options.rounds, eval_every=0, eval_fanouts=self.options.fanouts, overwrite=True,
            )  # fmt: skip
        return self.of_epochs(result)

    def train(self):
        with self.folder() as folder:
            result = strata.train(
                graph=self.options.graph, model="sage", fanouts=self.options.fanouts, hidden=self.options.hidden,
                batch_size=self.options.batch_size, epochs=UNCOUNTED_EPOCHS + self.options.rounds, precision="tf32" if self.on_gpu else "f32",
                eval_every=0, eval_fanouts=self.options.fanouts, checkpoint_every=0, output=folder, overwrite=True, progress="off",
            )  # fmt: skip
        return self.of_epochs(result)

    @contextlib.contextmanager
    def folder(self):
        """One that all ranks know; the first one makes it."""
        with tempfile.TemporaryDirectory(prefix="strata-benchmark-") as own:
            yield self.process.broadcast(own, 0)
            self.process.barrier()

    @staticmethod
    def of_epochs(result):
        epochs = result.records_of("epoch")
        return statistics.median(epoch["seconds"] / epoch["steps"] for epoch in epochs[UNCOUNTED_EPOCHS:]), epochs[-1]["loss"]


def last_of(losses):
    return collections.deque(losses, maxlen=1).pop()


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="synthetic:products")
    parser.add_argument("--fanouts", type=lambda text: [int(fanout) for fanout in text.split(",")], default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--steps", type=int, help="per round, instead of an epoch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD")
    parser.add_argument("--json", help="a file for the rows")
    return parser.parse_args()


def main():
    options = parsed()
    torch.backends.cuda.matmul.allow_tf32 = True
    process = strata.process()
    if process.size > 1:
        strata.init_process_group()
    ladder = Ladder(options)
    rows = []
    for name, measure in ladder.ways().items():
        if any(word in name for word in options.only):
            torch.manual_seed(1)
            seconds, loss = measure()
            rows.append({"way": name, "ms per step": 1e3 * seconds, "loss": loss})
            if process.rank == 0:
                print(f"-- {name}: {1e3 * seconds:.2f} ms", flush=True)
    if process.rank == 0:
        device = torch.cuda.get_device_name() if ladder.on_gpu else "CPU"
        print(f"\n{options.graph}, fanouts {options.fanouts}, {options.batch_size} seeds per rank, hidden {options.hidden}, {process.size} x {device}")
        print(f"an epoch has {len(ladder.blocks)} steps; torch {torch.__version__}\n\n| | ms per step | beside the first | last loss |\n|---|---|---|---|")
        for row in rows:
            print(f"| {row['way']} | {row['ms per step']:.2f} | {row['ms per step'] / rows[0]['ms per step']:.2f} | {row['loss']:.4f} |")
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"options": vars(options), "device": device, "ranks": process.size, "rows": rows}, file, indent=1)
    ladder.graph.close()
    if process.size > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
