# SPDX-License-Identifier: Apache-2.0
"""How fast does examples/python/dgl_tutorial.py train, beside the same model and loop on PyTorch Geometric's in-memory sampler?

    python benchmarks/dgs/tutorial.py --graph parts [--layers pyg strata] [--json FILE]
    torchrun --nproc_per_node 4 benchmarks/dgs/tutorial.py --graph ogb:datasets/products

Seconds per epoch of training: the first epoch warms up, the median of the others counts. PyG's NeighborLoader needs pyg-lib or
torch-sparse. It has the whole graph in the memory of each rank's process, and is measured with each number of worker processes,
with features on the CPU and on the GPU; the fastest way of either side counts. On GPUs where there are any, else on the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

import strata

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples/python"), str(ROOT / "benchmarks/peers")]
import dgl_tutorial as tutorial  # noqa: E402
import pyg_peer  # noqa: E402


class Run:
    """The common part of both sides: the device, the graph, the options, and a table that the first rank prints."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.process = strata.init(device=options.device)
        strata.init_process_group()
        self.options, self.device = options, torch.device(self.process.device)
        self.on_gpu, self.speaks = self.device.type == "cuda", self.process.rank == 0
        ranks_per_machine = -(-self.process.size // self.process.num_machines)
        self.cores = max(1, (options.cores or len(os.sched_getaffinity(0))) // ranks_per_machine)
        torch.set_num_threads(self.cores)  # torchrun leaves one
        self.graph = tutorial.load(options, self.process.size)
        self.sizes = self.graph.num_features, self.graph.num_classes
        self.rows: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        if self.speaks:
            print(text, flush=True)

    def now(self) -> float:
        """The time when all ranks and GPUs have arrived here."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)
        dist.barrier()
        return time.perf_counter()

    def measure(self, case: str, graph: Any, layers: str, batches: Callable[[], Any]) -> float:
        """Median seconds of the tutorial's epochs over what `batches` gives."""
        options = argparse.Namespace(**(vars(self.options) | {"layers": layers}))
        _, model, opt = tutorial.make_model(*self.sizes, self.device, options)
        seconds, losses = [], []
        for _ in range(self.options.epochs):
            start = self.now()
            tutorial.train_epoch(graph, model, opt, batches(), lambda step, loss: losses.append(loss.detach()))
            seconds.append(self.now() - start)
        median, loss = statistics.median(seconds[1:]), losses[-1].item()
        self.rows.append({"case": case, "seconds_per_epoch": median, "epochs": seconds, "last_loss": loss})
        self.say(f"{case:<46} {median:12.4f} {min(seconds[1:]):9.4f} {max(seconds[1:]):9.4f} {loss:10.4f}")
        return median


class Layer(NamedTuple):
    """The edges of a batch that a layer takes, by the names of Strata's blocks."""

    edge_index: torch.Tensor
    num_dst: int
    size: tuple[int, int]


def layers_of(batch: Any) -> list[Layer]:
    """Hops come one after another, seeds first: a layer takes fewer of them than the one before, as trim_to_layer() has it."""
    if "num_sampled_nodes" not in batch:  # torch-sparse does not distinguish hops: only the last layer takes fewer
        whole = Layer(batch.edge_index, batch.num_nodes, (batch.num_nodes, batch.num_nodes))
        of_seeds = batch.edge_index[:, batch.edge_index[1] < batch.batch_size]
        last = Layer(of_seeds, batch.batch_size, (batch.num_nodes, batch.batch_size))
        return [whole] * (len(tutorial.FANOUTS) - 1) + [last]
    nodes, edges = batch.num_sampled_nodes, batch.num_sampled_edges
    return [
        Layer(batch.edge_index[:, : sum(edges[:hops])], sum(nodes[:hops]), (sum(nodes[: hops + 1]), sum(nodes[:hops])))
        for hops in range(len(edges), 0, -1)
    ]


class LookedUp:
    """Stands for features and labels that came with the batch: what the loop asks for is what it gets."""

    def __getitem__(self, rows: torch.Tensor) -> torch.Tensor:
        return rows


class Peer:
    """The graph in this process's memory, and PyG's loaders over it."""

    def __init__(self, run: Run, nodes: torch.Tensor) -> None:
        Data, self.NeighborLoader, _ = pyg_peer.imports()
        from torch_geometric.sampler import NeighborSampler

        graph = run.graph
        some = torch.arange(graph.num_nodes).split(1 << 18)
        lists = [graph.in_edges(ids) for ids in some]
        counts = torch.cat([torch.from_numpy(edges.counts) for edges in lists])
        sources = torch.cat([torch.from_numpy(edges.sources) for edges in lists])
        edge_index = torch.stack([sources, torch.repeat_interleave(torch.arange(graph.num_nodes), counts)])
        self.x = torch.cat([graph.features[ids].cpu() for ids in some])
        self.y = torch.cat([graph.labels[ids].cpu() for ids in some])
        self.run, self.nodes = run, nodes
        self.with_rows = Data(x=self.x, y=self.y, edge_index=edge_index)
        self.without_rows = Data(edge_index=edge_index, num_nodes=graph.num_nodes)
        self.sampler = NeighborSampler(self.without_rows, tutorial.FANOUTS, is_sorted=True)

    def loader(self, data: Any, workers: int) -> Any:
        def without_edge_ids(batch: Any) -> Any:
            del batch.e_id
            return batch

        return self.NeighborLoader(
            data,
            tutorial.FANOUTS,
            neighbor_sampler=self.sampler,  # one for all loaders, which workers inherit by fork
            input_nodes=self.nodes,
            batch_size=self.run.options.batch_size,
            shuffle=True,
            transform=without_edge_ids,
            filter_per_worker=True,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=self.run.on_gpu,
        )

    def batches(self, loader: Any) -> Iterator[Any]:
        """Batches as Strata's loader gives them, with rows instead of ids where the workers looked rows up."""
        for batch in loader:
            batch = batch.to(self.run.device, "x", "y", "n_id", "edge_index", non_blocking=True)
            inputs, labels = (batch.x, batch.y) if "x" in batch else (batch.n_id, batch.n_id)
            yield inputs, labels[: batch.batch_size], layers_of(batch)

    def measure_ways(self) -> float:
        """Seconds per epoch of the fastest."""
        device, seconds = self.run.device, []
        places = [("CPU", self.with_rows, SimpleNamespace(features=LookedUp(), labels=LookedUp()))]
        if self.run.on_gpu and self.x.nbytes < 0.7 * torch.cuda.get_device_properties(device).total_memory:
            places.append(("GPU", self.without_rows, SimpleNamespace(features=self.x.to(device), labels=self.y.to(device))))
        for place, data, graph in places:
            for workers in sorted({min(workers, self.run.cores) for workers in self.run.options.workers}):
                case, loader = f"PyG, features on the {place}, {workers} workers", self.loader(data, workers)
                seconds.append(self.run.measure(case, graph, "pyg", lambda: self.batches(loader)))
        return min(seconds)


def measure_all(options: argparse.Namespace) -> None:
    run = Run(options)
    rank, ranks = run.process.rank, run.process.size
    graph = run.graph
    where = torch.cuda.get_device_name(run.device) if run.on_gpu else "CPU"
    run.say(f"{options.graph} on {ranks} x {where}, {run.cores} cores per rank, {options.batch_size} seeds per rank and step")
    run.say(f"{'':<46} {'s per epoch':>12} {'least':>9} {'most':>9} {'last loss':>10}")
    dataloader = tutorial.create_dataloader(rank, ranks, graph, graph.nodes("train"), options)  # of both kinds of layers
    seconds = min(run.measure(f"Strata, layers of {kind}", graph, kind, lambda: dataloader) for kind in options.layers)
    try:
        peer = Peer(run, tutorial.nodes_of_rank(rank, ranks, graph.nodes("train")))
    except pyg_peer.training.Missing as missing:
        peer = None
        run.say(f"PyG's loader is not installed: {missing}")
    graph.close()
    times = None
    if peer is not None:
        times = peer.measure_ways() / seconds
        run.say(f"Strata is {times:.2f} times as fast")
    if options.json and run.speaks:
        setup = {name: getattr(options, name) for name in ("graph", "batch_size", "epochs", "layers")}
        setup |= {"ranks": ranks, "device": where, "cores_per_rank": run.cores}
        options.json.write_text(json.dumps({"setup": setup, "rows": run.rows, "times_as_fast": times}, indent=1) + "\n")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", required=True, help="parts, ogb:DIR, or what strata.load() takes besides")
    parser.add_argument("--layers", choices=["pyg", "strata"], nargs="+", default=["pyg"], help="of the models on Strata (pyg)")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[0, 4, 8, 16], help="of PyG's loader, at most the rank's cores"
    )
    parser.add_argument("--cores", type=tutorial.positive, help="of this machine; default: those that the process may run on")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--epochs", type=tutorial.positive, default=4, help="of each way (%(default)s)")
    parser.add_argument("--batch-size", type=tutorial.positive, default=1024, help="seeds per rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path, help="a file for the rows")
    options = parser.parse_args()
    if options.epochs < 2:
        parser.error("--epochs: at least 2, because the first only warms up")
    if min(options.workers) < 0:
        parser.error("--workers: 0 or more")
    measure_all(options)


if __name__ == "__main__":
    main()
