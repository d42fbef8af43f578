#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DGL's tutorial "Stochastic Training of GNN with Multiple GPUs" on graphs of Strata: the same sampler, model and loop.

    torchrun --nproc_per_node 4 examples/python/dgl_tutorial.py --graph parts
    mpirun -n 4 python examples/python/dgl_tutorial.py --graph ogb:datasets/products
    python examples/python/dgl_tutorial.py --graph parts --spawn 4

Layers are DGL's where DGL is installed and can use what there is, else torch_geometric's; `--layers strata` takes those of
strata.dgl.nn. On GPUs where there are any, else on the CPU. `strata-train --config examples/dgl_tutorial.toml --graph parts` trains the same model.
"""

import argparse
import contextlib
import os
import pathlib
import socket
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import strata
import strata.dgl as dgl

FANOUTS = [4, 4, 4]


class MultiLayerNeighborSampler(dgl.dataloading.BlockSampler):
    def __init__(self, fanouts: list[int]) -> None:
        super().__init__(len(fanouts), return_eids=False)
        self.fanouts = fanouts

    def sample_frontier(self, layer_id: int, g: strata.Graph, seed_nodes: torch.Tensor) -> dgl.Frontier:
        fanout = self.fanouts[layer_id]
        return dgl.sampling.sample_neighbors(g, seed_nodes, fanout)


def nodes_of_rank(rank: int, world_size: int, nids: torch.Tensor) -> torch.Tensor:
    partition_size = len(nids) // world_size
    partition_offset = partition_size * rank
    return nids[partition_offset : partition_offset + partition_size]


def create_dataloader(
    rank: int, world_size: int, graph: strata.Graph, nids: torch.Tensor, options: argparse.Namespace
) -> dgl.dataloading.NodeDataLoader:
    sampler = MultiLayerNeighborSampler(FANOUTS)
    return dgl.dataloading.NodeDataLoader(
        graph,
        nodes_of_rank(rank, world_size, nids),
        sampler,
        ddp_seed=options.seed,
        batch_size=options.batch_size,
        shuffle=True,
        drop_last=False,
        num_workers=0,
        blocks="dgl" if options.layers == "dgl" else "strata",
    )


def layer_of(kind: str) -> tuple[Callable[[int, int], torch.nn.Module], Callable[[Any, Any, torch.Tensor], torch.Tensor]]:
    """A function of (inputs, outputs) that makes a layer, and one of (layer, block, x) that calls it."""
    if kind == "dgl":
        from dgl.nn import SAGEConv

        return (lambda i, o: SAGEConv(i, o, "mean")), (lambda layer, block, x: layer(block, x))
    if kind == "strata":
        from strata.dgl.nn import SAGEConv as StrataConv

        return (lambda i, o: StrataConv(i, o, "mean")), (lambda layer, block, x: layer(block, x))
    from torch_geometric.nn import SAGEConv

    return SAGEConv, (lambda layer, block, x: layer((x, x[: block.num_dst]), block.edge_index, size=block.size))


def default_layers() -> str:
    try:
        import dgl.nn
    except (ImportError, OSError):
        return "pyg"
    has_cuda = "+cu" in dgl.__version__  # as wheels with CUDA call themselves; that of PyPI has none
    return "dgl" if has_cuda or not torch.cuda.is_available() else "pyg"


class SAGE(torch.nn.Module):
    def __init__(self, in_feats: int, n_hidden: int, n_classes: int, n_layers: int, kind: str) -> None:
        super().__init__()
        make, self.call = layer_of(kind)
        sizes = [in_feats] + [n_hidden] * (n_layers - 1) + [n_classes]
        self.layers = torch.nn.ModuleList([make(before, after) for before, after in zip(sizes, sizes[1:])])

    def forward(self, bipartites: list[Any], x: torch.Tensor) -> torch.Tensor:
        for layer, bipartite in zip(self.layers, bipartites):
            x = self.call(layer, bipartite, x)
            if layer is not self.layers[-1]:
                x = F.relu(x)
        return x


def validate(graph: strata.Graph, model: torch.nn.Module, dataloader: dgl.dataloading.NodeDataLoader) -> float:
    model.eval()
    right = []
    with torch.no_grad():
        for input_nodes, output_nodes, bipartites in dataloader:
            predictions = model(bipartites, graph.features[input_nodes]).argmax(1)
            right.append(predictions == graph.labels[output_nodes])
    return torch.cat(right).double().mean().item()


def load(options: argparse.Namespace, world_size: int) -> strata.Graph:
    graph = strata.load(options.graph)
    for split, needed in (("train", world_size), ("valid", 1)):
        if len(graph.nodes(split)) < needed:
            raise strata.InputError(
                f"{options.graph}: the split {split!r} has fewer nodes than are needed", "Give a graph with training and validation nodes."
            )
    return graph


def make_model(
    in_feats: int, n_classes: int, device: torch.device, options: argparse.Namespace
) -> tuple[SAGE, DistributedDataParallel, torch.optim.Optimizer]:
    torch.manual_seed(options.seed)
    sage = SAGE(in_feats, 128, n_classes, 3, options.layers).to(device)
    model = DistributedDataParallel(sage, device_ids=[device] if device.type == "cuda" else None)
    return sage, model, torch.optim.Adam(model.parameters())


def train_epoch(
    graph: Any, model: torch.nn.Module, opt: torch.optim.Optimizer, dataloader: Any, report: Callable[[int, torch.Tensor], None]
) -> None:
    model.train()
    for step, (input_nodes, output_nodes, bipartites) in enumerate(dataloader):
        inputs = graph.features[input_nodes]
        labels = graph.labels[output_nodes]
        loss = F.cross_entropy(model(bipartites, inputs), labels, ignore_index=-1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        report(step, loss)


def train(options: argparse.Namespace) -> None:
    process = strata.init(device=options.device)
    strata.init_process_group()
    rank, world_size, device = process.rank, process.size, torch.device(process.device)
    graph = load(options, world_size)
    train_dataloader = create_dataloader(rank, world_size, graph, graph.nodes("train"), options)
    valid_dataloader = create_dataloader(0, 1, graph, graph.nodes("valid"), options)  # one rank validates
    sage, model, opt = make_model(graph.num_features, graph.num_classes, device, options)
    torch.distributed.barrier()

    def report(step: int, loss: torch.Tensor) -> None:
        if rank == 0 and step % 10 == 0:
            print(f"Epoch {epoch:05d} Step {step:05d} Loss {loss.item():.04f}", flush=True)

    best_accuracy = 0.0
    for epoch in range(options.epochs):
        train_epoch(graph, model, opt, train_dataloader, report)
        torch.distributed.barrier()
        if rank == 0:
            accuracy = validate(graph, sage, valid_dataloader)
            print(f"Epoch {epoch} Validation Accuracy {accuracy}", flush=True)
            if best_accuracy < accuracy:
                best_accuracy = accuracy
                torch.save(sage.state_dict(), options.output)
        torch.distributed.barrier()
    del model  # which would end the group's threads while it holds Python's lock, for which they may be waiting
    torch.distributed.destroy_process_group()
    graph.close()


def spawned(rank: int, world_size: int, port: int, options: argparse.Namespace) -> None:
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world_size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    train(options)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of at least 1")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", required=True, help="parts, ogb:DIR, or what strata.load() takes besides")
    parser.add_argument("--layers", choices=["dgl", "pyg", "strata"], default=default_layers(), help="default: %(default)s")
    parser.add_argument("--spawn", type=positive, metavar="RANKS", help="start so many processes, without torchrun or mpirun")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--epochs", type=positive, default=10)
    parser.add_argument("--batch-size", type=positive, default=1024, help="seeds per rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("model.pt"), help="of the best model (%(default)s)")
    options = parser.parse_args()
    if not options.output.absolute().parent.is_dir():
        parser.error(f"--output: there is no folder {options.output.absolute().parent}")
    if options.spawn is None:
        return train(options)
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(spawned, args=(options.spawn, port, options), nprocs=options.spawn)


if __name__ == "__main__":
    main()
