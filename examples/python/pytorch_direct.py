#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch-Direct's example: GraphSAGE on sampled blocks, with features that the GPU reads out of host memory.

    python examples/python/pytorch_direct.py --graph ogb:datasets/products --num-layers 3 --fan-out 5,10,15 --data-cpu
    python examples/python/pytorch_direct.py --graph parts --data-cpu --mps 10,90
    launch/with-mps --percentage 10,90 python examples/python/pytorch_direct.py --graph parts --data-cpu

Its options and its lines. The speed counts the whole wall time of training, loading included. Without a GPU all of it runs on the
CPU.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from strata.nn import SAGEConv

import strata
import strata.dgl as dgl

Batch = tuple[torch.Tensor, torch.Tensor, list[strata.Block]]  # features, labels, and a block per layer

BATCHES_AHEAD = 3  # that a process of its own loads
ROWS_AT_ONCE = 1 << 18
FIRST_COUNTED_EPOCH = 5  # the epochs before warm up


class Data(NamedTuple):
    """A graph as plain tensors in host memory."""

    edge_index: torch.Tensor
    features: torch.Tensor
    labels: torch.Tensor
    splits: dict[str, torch.Tensor]
    num_classes: int

    def share(self) -> None:
        for tensor in (self.edge_index, self.features, self.labels, *self.splits.values()):
            tensor.share_memory_()


class Part(NamedTuple):
    """A graph to sample from, with its features and labels where --data-cpu says, and the nodes to train or score."""

    graph: strata.Graph
    features: Any
    labels: Any
    nodes: torch.Tensor


def read(source: str) -> Data:
    """The tensors of whatever strata.load() takes."""
    with strata.load(source, gpu_memory=0) as graph:
        nodes = torch.arange(graph.num_nodes)
        lists = graph.in_edges(nodes)
        destinations = nodes.repeat_interleave(torch.from_numpy(lists.counts))
        labels = graph.labels[nodes].cpu()
        if labels.dim() != 1:
            raise strata.InputError(f"{source}: nodes have several classes", "Train it with strata-train --loss bce.")
        if len(graph.nodes("train")) == 0:
            raise strata.InputError(f"{source} has no training nodes", "Give a graph with a split.")
        return Data(
            edge_index=torch.stack([torch.from_numpy(lists.sources), destinations]),
            features=torch.cat([graph.features[ids].cpu() for ids in nodes.split(ROWS_AT_ONCE)]),
            labels=labels,
            splits={split: graph.nodes(split) for split in ("train", "valid", "test")},
            num_classes=graph.num_classes,
        )


def induced(data: Data, *splits: str) -> Data:
    """The subgraph of the nodes of some splits: they and the edges among them, with numbers of their own."""
    chosen = torch.zeros(len(data.labels), dtype=torch.bool)
    for split in splits:
        chosen[data.splits[split]] = True
    number = chosen.cumsum(0) - 1
    sources, destinations = data.edge_index
    return data._replace(
        edge_index=number[data.edge_index[:, chosen[sources] & chosen[destinations]]],
        features=data.features[chosen],
        labels=data.labels[chosen],
        splits={split: number[data.splits[split]] for split in splits},
    )


def part_of(data: Data, split: str, options: argparse.Namespace) -> Part:
    graph = strata.from_tensors(data.edge_index, num_nodes=len(data.labels))
    if options.data_cpu:
        return Part(graph, strata.unified(data.features), strata.unified(data.labels), data.splits[split])
    device = strata.process().device
    return Part(graph, data.features.to(device), data.labels.to(device), data.splits[split])


def training_part(data: Data, options: argparse.Namespace) -> Part:
    return part_of(induced(data, "train") if options.inductive else data, "train", options)


def scored_parts(data: Data, options: argparse.Namespace, trained: Part | None) -> dict[str, Part]:
    """Of the validation and the test nodes, where there are any. Validation of an inductive run does not see the test nodes either."""
    if options.inductive or trained is None:
        valid, test = part_of(induced(data, "train", "valid"), "valid", options), part_of(data, "test", options)
    else:
        valid = trained._replace(nodes=data.splits["valid"])
        test = trained._replace(nodes=data.splits["test"])
    parts = {"Eval Acc {:.4f}": valid, "Test Acc: {:.4f}": test}
    return {line: part for line, part in parts.items() if len(part.nodes) > 0}


class SAGE(torch.nn.Module):
    def __init__(self, in_feats: int, n_hidden: int, n_classes: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        sizes = [in_feats] + [n_hidden] * (n_layers - 1) + [n_classes]
        self.layers = torch.nn.ModuleList([SAGEConv(before, after) for before, after in zip(sizes, sizes[1:])])
        self.dropout = dropout

    def finish(self, layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        """What follows a layer."""
        return x if layer is self.layers[-1] else F.dropout(F.relu(x), self.dropout, self.training)

    def forward(self, blocks: list[strata.Block], x: torch.Tensor) -> torch.Tensor:
        for layer, block in zip(self.layers, blocks):
            x = self.finish(layer, layer(x, block))
        return x

    def inference(self, part: Part, batch_size: int) -> torch.Tensor:
        """The rows of all nodes from all of their neighbors, layer by layer; in host memory."""
        x = part.features
        for layer in cast("Iterable[SAGEConv]", self.layers):
            rows = torch.empty(len(part.labels), layer.out_channels)
            loader = strata.NodeLoader(part.graph, None, fanouts=[-1], batch_size=batch_size, own_nodes=True, transposes=False)
            for input_nodes, output_nodes, blocks in loader:
                rows[output_nodes.cpu()] = self.finish(layer, layer(x[input_nodes], blocks[0])).cpu()
            loader.close()
            x = strata.unified(rows)
        return rows


def accuracy_of(predictions: torch.Tensor, labels: torch.Tensor) -> float:
    return (predictions.argmax(1) == labels).float().mean().item()


def evaluate(model: SAGE, part: Part, batch_size: int) -> float:
    model.eval()
    with torch.no_grad():
        predictions = model.inference(part, batch_size)[part.nodes]
    model.train()
    return accuracy_of(predictions, part.labels[part.nodes.to(strata.process().device)].cpu())


class OwnLoading:
    """Batches of an epoch, loaded by this process: (features, labels, blocks)."""

    def __init__(self, part: Part, options: argparse.Namespace) -> None:
        self.part = part
        self.loader = dgl.dataloading.NodeDataLoader(
            part.graph,
            part.nodes,
            dgl.dataloading.MultiLayerNeighborSampler([int(fanout) for fanout in options.fan_out.split(",")]),
            batch_size=options.batch_size,
            shuffle=True,
            drop_last=False,
            num_workers=options.num_workers,
            blocks="strata",
        )

    def __iter__(self) -> Iterator[Batch]:
        for input_nodes, seeds, blocks in self.loader:
            yield self.part.features[input_nodes], self.part.labels[seeds], blocks


class LoadingBeside:
    """The same, one batch ahead of training, on SMs of its own."""

    def __init__(self, loading: OwnLoading, split: strata.SmSplit) -> None:
        self.loading = loading
        self.stream = split.loading_stream
        loading.loader.run_on(split)

    def __iter__(self) -> Iterator[Batch]:
        training = torch.cuda.current_stream()
        batches = iter(self.loading)
        batch, loaded = self.load(batches)
        while batch is not None:
            following = self.load(batches)
            training.wait_event(loaded)
            yield batch
            self.stream.wait_stream(training)  # before the batch's memory is used again
            batch, loaded = following

    def load(self, batches: Iterator[Batch]) -> tuple[Batch | None, torch.cuda.Event]:
        with torch.cuda.stream(self.stream):
            return next(batches, None), self.stream.record_event()


class LoadingApart:
    """The same, loaded by another process."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def __iter__(self) -> Iterator[Batch]:
        while (batch := self.queue.get()) is not None:
            features, labels, blocks = batch
            yield features, labels, [strata.Block(*fields, transposed=transposed) for fields, transposed in blocks]  # type: ignore[misc]
            del batch, features, labels, blocks


def load_for_another(data: Data, queue: Any, done: Any, options: argparse.Namespace) -> None:
    """Puts the batches of all epochs into the queue, with None behind each epoch's."""
    loading = OwnLoading(training_part(data, options), options)
    for _ in range(options.num_epochs):
        for features, labels, blocks in loading:
            queue.put(own_copy((features, labels, [(tuple(block), block.transposed) for block in blocks])))
        queue.put(None)
    done.wait()  # what the other process reads belongs to this one


def own_copy(value: Any) -> Any:
    """In memory of torch's, which it can show to other processes."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    return type(value)(own_copy(entry) for entry in value) if isinstance(value, (list, tuple)) else value


def train(data: Data, part: Part | None, batches: Iterable[Batch], options: argparse.Namespace) -> None:
    device = strata.process().device
    on_gpu = device.startswith("cuda")
    torch.manual_seed(options.seed)
    model = SAGE(data.features.size(1), options.num_hidden, data.num_classes, options.num_layers, options.dropout).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    scored = scored_parts(data, options, part)

    epoch_times, num_seeds, trained = [], 0, 0.0
    for epoch in range(options.num_epochs):
        start = time.perf_counter()
        for step, (features, labels, blocks) in enumerate(batches):
            predictions = model(blocks, features)
            loss = F.cross_entropy(predictions, labels, ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            num_seeds += len(labels)
            if step % options.log_every == 0:
                accuracy = accuracy_of(predictions, labels)  # waits for the GPU
                speed = num_seeds / (trained + time.perf_counter() - start)
                memory = torch.cuda.max_memory_allocated() / 1e6 if on_gpu else 0
                print(
                    f"Epoch {epoch:05d} | Step {step:05d} | Loss {loss.item():.4f} | Train Acc {accuracy:.4f} | "
                    f"Speed (samples/sec) {speed:.4f} | GPU {memory:.1f} MB",
                    flush=True,
                )
        if on_gpu:
            torch.cuda.synchronize()
        epoch_times.append(time.perf_counter() - start)
        trained += epoch_times[-1]
        print(f"Epoch Time(s): {epoch_times[-1]:.4f}", flush=True)
        if epoch % options.eval_every == 0 and epoch != 0:
            for line, part in scored.items():
                print(line.format(evaluate(model, part, options.batch_size)), flush=True)
    counted = epoch_times[FIRST_COUNTED_EPOCH:] or epoch_times
    print(f"Avg epoch time: {sum(counted) / len(counted)}", flush=True)


def confine(share: int, first: bool, on_gpu: bool) -> None:
    """This process to its percentage of the SMs, or of the cores: the first of them, or the last."""
    if on_gpu:
        os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(share)  # which CUDA reads when this process begins to use it
        return
    cores = sorted(os.sched_getaffinity(0))
    count = max(1, round(len(cores) * share / 100))
    os.sched_setaffinity(0, cores[:count] if first else cores[-count:])
    torch.set_num_threads(count)


def work_together(data: Data, options: argparse.Namespace) -> None:
    """Loads and trains in one process."""
    part = training_part(data, options)
    batches = OwnLoading(part, options)
    if not options.mps:
        return train(data, part, batches, options)
    split = strata.SmSplit(*options.mps)
    with split.training():
        train(data, part, LoadingBeside(batches, split), options)


def work_apart(index: int, data: Data, queue: Any, done: Any, options: argparse.Namespace) -> None:
    """What process 0 (loading) and process 1 (training) of --mps do."""
    on_gpu = options.gpu >= 0
    confine(options.mps[index], index == 0, on_gpu)
    strata.init(device="cuda" if on_gpu else "cpu")
    if index == 0:
        return load_for_another(data, queue, done, options)
    part = None if options.inductive else training_part(data, options)  # to score
    train(data, part, LoadingApart(queue), options)
    done.set()


def parse_shares(text: str) -> list[int]:
    try:
        shares = [int(share) for share in text.split(",")]
    except ValueError:
        shares = []
    if len(shares) != 2 or not all(1 <= share <= 100 for share in shares):
        raise argparse.ArgumentTypeError(f"'{text}' is not LOAD,TRAIN in percent, such as 10,90")
    return shares


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of at least 1")
    return int(text)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", "--dataset", required=True, help="parts, ogb:DIR, or what strata.load() takes besides")
    parser.add_argument("--gpu", type=int, help="number of the GPU; -1: the CPU (default: 0 where there is a GPU, else -1)")
    parser.add_argument("--num-epochs", type=positive, default=20)
    parser.add_argument("--num-hidden", type=positive, default=16)
    parser.add_argument("--num-layers", type=positive, default=2)
    parser.add_argument("--fan-out", default="10,25", help="as DGL lists them: the layer of the seeds last (%(default)s)")
    parser.add_argument("--batch-size", type=positive, default=1000)
    parser.add_argument("--log-every", type=positive, default=20, help="steps")
    parser.add_argument("--eval-every", type=positive, default=5, help="epochs")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--num-workers", type=int, default=0, help="without effect: threads of C++ sample")
    parser.add_argument("--inductive", action="store_true", help="train on the subgraph of the training nodes")
    parser.add_argument(
        "--data-cpu",
        action="store_true",
        help="leave features and labels in host memory, where the GPU reads them in place; they are copied to the GPU otherwise",
    )
    parser.add_argument(
        "--mps",
        type=parse_shares,
        default=os.environ.get("STRATA_MPS_SHARES"),  # of launch/with-mps --percentage LOAD,TRAIN
        metavar="LOAD,TRAIN",
        help="percentages of the GPU's SMs: under launch/with-mps of a process that loads and of one that trains, else of loading and of "
        "training in one process; without a GPU, of the cores for two processes: LOAD of the first ones, TRAIN of the last ones",
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    settle(parser, options)
    return options


def settle(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuses what cannot be, and says what has no effect."""
    fanouts = options.fan_out.split(",")
    if not all(fanout == "-1" or fanout.isdecimal() for fanout in fanouts):
        parser.error(f"--fan-out {options.fan_out}: give numbers of neighbors such as 10,25; -1: all of them")
    if len(fanouts) != options.num_layers:
        parser.error(f"--fan-out has {len(fanouts)} entries for --num-layers {options.num_layers}: give one per layer")
    if not 0 <= options.dropout < 1:
        parser.error(f"--dropout {options.dropout}: give a probability below 1")
    num_gpus = torch.cuda.device_count()
    if options.gpu is None:
        options.gpu = 0 if num_gpus else -1
    if not -1 <= options.gpu < num_gpus:
        parser.error(f"--gpu {options.gpu}: this host has {num_gpus} GPUs; -1 is the CPU")
    options.two_processes = options.mps is not None and (options.gpu < 0 or "CUDA_MPS_PIPE_DIRECTORY" in os.environ)
    if options.gpu < 0 and options.data_cpu:
        print("--data-cpu changes nothing here: all data lie in host memory, where the CPU reads them", file=sys.stderr)


def select_gpu(number: int) -> None:
    """Lets this process and its children see one GPU only."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[number] if visible else str(number)


def main() -> None:
    options = parse_options()
    if options.gpu >= 0:
        select_gpu(options.gpu)
    strata.init(device="cpu" if options.gpu < 0 or options.two_processes else "cuda")
    if strata.process().size > 1:
        raise SystemExit("pytorch_direct.py is for one GPU; dgl_tutorial.py trains on several")
    data = read(options.graph)
    if not options.two_processes:
        return work_together(data, options)
    data.share()
    context = mp.get_context("spawn")
    mp.spawn(work_apart, args=(data, context.Queue(BATCHES_AHEAD), context.Event(), options), nprocs=2)


if __name__ == "__main__":
    main()
