# SPDX-License-Identifier: Apache-2.0
"""Dist-GPU-sampling's benchmark: GraphSAGE or GAT on ChunkTensors over the GPUs of a machine and its host memory.

    python examples/dgs/bench.py --num-gpu 4 --dataset ogbn-products --root dataset --fan-out 15,15,15 --bias
    torchrun --nnodes 2 --nproc_per_node 4 ... examples/dgs/bench.py ...      # several machines: each has a copy of the graph

Without a GPU, --num-gpu is the number of processes, and everything lies in host memory. --dataset is one of the original's
names, or any input of strata-partition: synthetic:products, synthetic:papers400M, npy:DIR. Products of matrices are in TF32 where
the GPU has it. With --feat-cache-rate 4 --graph-cache-rate 4, each of four GPUs has a copy of everything.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import socket
import sys
import time
from typing import Any, NamedTuple

import bench_data
import torch
import torch.distributed as dist
import torch.multiprocessing
from bench_models import Layer, make_model
from bench_training import Batch, Trainer
from torch.nn.parallel import DistributedDataParallel

import strata.dgs

GIB = 1 << 30
WARM_UP = 16  # iterations that are not counted
RESERVED = {"graphsage": 3 * GIB, "gat": 11 * GIB}  # bytes per GPU that training takes


class Machine:
    """The ranks of this host. After connect() they share ChunkTensors, or each has its own copies."""

    def __init__(self, reports_costs: bool) -> None:
        self.reports_costs = reports_costs
        self.size = int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
        self.group = dist.new_subgroups(self.size)[0] if self.size < dist.get_world_size() else None
        self.root = dist.get_rank() - dist.get_rank(self.group)
        self.is_root = dist.get_rank() == self.root
        self.on_gpu = torch.cuda.is_available()
        self.num_gpus = min(self.size, torch.cuda.device_count())
        if self.on_gpu:
            torch.cuda.set_device(dist.get_rank(self.group) % torch.cuda.device_count())
        self.device = torch.device("cuda", torch.cuda.current_device()) if self.on_gpu else torch.device("cpu")
        self.copies = False  # whether each rank has all of every ChunkTensor on its own GPU

    def connect(self, copied: int, reserved: int) -> None:
        """Says who makes ChunkTensors together: each rank on its own if copies are asked for (the first rank's `copied` bytes per GPU
        are not 0) and every GPU has room for them, else the ranks of the host. Collective over all ranks; to be called once."""
        copied, free = self.share(copied), self.free_bytes(reserved)
        fits = torch.tensor([0 < copied <= free], dtype=torch.int32)
        dist.all_reduce(fits, dist.ReduceOp.MIN)
        self.copies = bool(fits)
        if self.copies:  # each rank is a group of its own
            torch.ops.dgs_ops._CAPI_set_nccl(1, torch.ops.dgs_ops._CAPI_get_unique_id(), 0)
        else:
            strata.dgs.create_communicator(self.group)
        if self.is_root and copied > free:
            say(f"No room for copies: wanted {copied / GIB:.3f} GB per GPU, free {free / GIB:.3f}; the GPUs share one copy")

    def share(self, value: Any) -> Any:
        """What the first rank has."""
        values = [value]
        dist.broadcast_object_list(values, self.root, self.group)
        return values[0]

    def free_bytes(self, reserved: int) -> int:
        """The least of its GPUs, without what training takes."""
        if not self.on_gpu:
            return 0
        free = torch.cuda.mem_get_info()[0] - reserved - 0.3 * torch.cuda.max_memory_reserved()
        least = torch.tensor([max(0, int(free))], device=self.device)
        dist.all_reduce(least, dist.ReduceOp.MIN, group=self.group)
        return int(least)

    def chunk_tensor(self, name: str, tensor: torch.Tensor | None, free: int, rate: float) -> Any:
        """`rate` of the bytes on all GPUs together, as far as they are free; with copies, all of them on every GPU."""
        if self.is_root and name:
            say(f"create chunk {name}")
        shape, dtype, size = self.share(None if tensor is None else (tensor.shape, tensor.dtype, tensor.nbytes))
        cached = size if self.copies else int(min(size * min(rate, 1) // self.num_gpus, free)) if self.num_gpus else 0
        made = torch.classes.dgs_classes.ChunkTensor(shape, dtype, cached)
        if tensor is not None:
            made._CAPI_load_from_tensor(tensor)
        if self.copies and size > 0:
            self.send_to_all(made._CAPI_get_sub_device_tensor())
        if self.is_root and name:
            total = cached * self.num_gpus / size if size else 0
            say(f"Cache size per GPU {cached / GIB:.3f} GB, all gpus total cache rate = {total:.3f}")
            if self.reports_costs:
                say(f"Loading factors: {costs(made, shape[0])}")
        dist.barrier(self.group)
        return made

    def send_to_all(self, own: torch.Tensor) -> None:
        """What the first rank has in its GPU's memory, to that of the others. Bytes, because NCCL does not have all types."""
        torch.cuda.synchronize()  # loading works on a stream of its own
        for piece in own.view(torch.uint8).split(GIB):
            dist.broadcast(piece, self.root, self.group)
        torch.cuda.synchronize()  # other streams may read it


def costs(tensor: Any, rows: int) -> str:
    """Of a random row from each tier that has some, by the cheapest."""
    seconds = strata.dgs.loading_factors(tensor, rows)._asdict()
    least = min(value for value in seconds.values() if value is not None)
    known = {tier: value for tier, value in seconds.items() if value is not None}
    return ", ".join(f"{tier} {value / least:.2f} ({value * 1e9:.2f} ns)" for tier, value in known.items())


def say(text: str) -> None:
    """In one piece, because several ranks print."""
    print(f"{text}\n", end="", flush=True)


def weights_of(data: bench_data.Data) -> torch.Tensor:
    """Half-normal ones where the graph has none."""
    return torch.randn(len(data.indices)).abs() if data.weights is None else data.weights


def bytes_of(data: bench_data.Data, bias: bool) -> int:
    """Of all that Graph makes."""
    weights = 4 * len(data.indices) if bias else 0
    return weights + sum(tensor.nbytes for tensor in (data.features, data.indices, data.indptr, data.labels))


def wants_copies(options: argparse.Namespace, num_gpus: int) -> bool:
    """Of everything, because a process is in one group of ranks at a time."""
    return num_gpus > 1 and min(options.feat_cache_rate, options.graph_cache_rate) >= num_gpus


def error_in_rates(rates: tuple[float, float], num_gpus: int) -> str | None:
    """What is wrong with those of features and of the graph; without GPUs they have no effect."""
    if not all(rate >= 0 for rate in rates):  # NaN neither
        return "--feat-cache-rate and --graph-cache-rate are shares of all GPUs together, of 0 or more"
    if num_gpus == 0 or max(rates) <= 1 or min(rates) >= num_gpus:
        return None
    return (
        f"--feat-cache-rate {rates[0]:g} and --graph-cache-rate {rates[1]:g} with {num_gpus} GPUs: "
        f"give shares from 0 to 1, or {num_gpus} for both, so that every GPU has a copy of everything"
    )


class Graph:
    """The order of the original: features > probs > indices > indptr, each as far as there is room."""

    def __init__(self, machine: Machine, data: bench_data.Data | None, options: argparse.Namespace) -> None:
        self.has_buffers = options.layers == "strata"
        self.attends = options.model == "gat"

        def make(name: str, rate: float, tensor: torch.Tensor | None) -> Any:
            return machine.chunk_tensor(name, tensor, machine.free_bytes(RESERVED[options.model]), rate)

        def own(name: str) -> torch.Tensor | None:
            return None if data is None else getattr(data, name)

        self.features = make("features", options.feat_cache_rate, own("features"))
        self.probs = None
        if options.bias:
            weights = None if data is None else weights_of(data)
            self.probs = make("probs", options.graph_cache_rate, weights)
        self.indices = make("indices", options.graph_cache_rate, own("indices"))
        self.indptr = make("indptr", options.graph_cache_rate, own("indptr"))
        self.labels = make("", 1, own("labels"))
        nodes, self.num_features = machine.share(None if data is None else tuple(data.features.shape))
        self.table = self.own_features(nodes) if self.has_buffers and not self.attends else None

    def own_features(self, nodes: int) -> torch.Tensor | None:
        """All features, if they lie where this rank computes: the first sum of GraphSAGE reads them in place, without a copy."""
        views = self.features._CAPI_get_sub_device_tensor(), self.features._CAPI_get_host_tensor()
        own = views[0] if torch.cuda.is_available() else views[1]
        fits = own.numel() == nodes * self.num_features and nodes < 2**31
        return own.view(nodes, self.num_features) if fits else None

    def sample(self, seeds: torch.Tensor, fanouts: list[int]) -> strata.dgs.SampledBlocks:
        """The last fanout is of the seeds."""
        kind = {"inputs_by_id": self.table is not None, "input_gradients": self.attends}
        return strata.dgs.sample_blocks(seeds, self.indptr, self.indices, fanouts, self.probs, **kind)

    def labels_of(self, seeds: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.labels._CAPI_index(seeds)
        return rows[:, 0]

    def batch(self, sample: strata.dgs.SampledBlocks, seeds: torch.Tensor) -> Batch:
        layers = sample.blocks if self.has_buffers else [Layer.of_lists(block) for block in sample.blocks]
        x = None if sample.inputs_by_id else self.features._CAPI_index(sample.nodes)
        return Batch(x, layers, self.labels_of(seeds))


class Speed(NamedTuple):
    """Of one rank, without the warm-up."""

    seconds_per_iteration: float
    seeds_per_second: float  # batches may be smaller than --batch-size


def batches(train: torch.Tensor, size: int, epoch: int) -> list[torch.Tensor]:
    """This rank's, as many as every other rank has."""
    order = train[torch.randperm(len(train), generator=torch.Generator().manual_seed(epoch))]
    each = -(-len(order) // dist.get_world_size())
    wrapped = order.repeat(2)[dist.get_rank() * each :][:each]
    return list(wrapped.split(size))


def train(machine: Machine, graph: Any, model: torch.nn.Module, ids: torch.Tensor, options: argparse.Namespace) -> Speed:
    """With what it takes to make the batches."""
    work = [
        (epoch, i, seeds)
        for epoch in range(options.num_epochs)
        for i, seeds in enumerate(batches(ids, options.batch_size, epoch))
    ]
    trainer = Trainer(machine, graph, model, options)
    trainer.measure(seeds for _, _, seeds in work)
    model.train()

    def run(part: list[tuple[int, int, torch.Tensor]]) -> None:
        for output, (epoch, i, seeds) in zip(trainer.outputs(seeds for _, _, seeds in part), part):
            if i % 20 == 0 and dist.get_rank() == 0 and options.print_train:
                accuracy = (output.scores.argmax(1) == output.labels)[: len(seeds)].float().mean()
                say(f"Epoch {epoch} | Iteration {i} | Loss {output.loss.item()} | Acc {accuracy.item()}")

    warm_up = min(WARM_UP, len(work) - 1)
    run(work[:warm_up])
    start = now(machine)
    run(work[warm_up:])  # which begins without a batch made ahead
    seconds = now(machine) - start
    return Speed(seconds / (len(work) - warm_up), sum(len(seeds) for _, _, seeds in work[warm_up:]) / seconds)


def now(machine: Machine) -> float:
    if machine.on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter()


class Task(NamedTuple):
    """What every rank knows of a graph."""

    num_features: int
    num_classes: int
    train: torch.Tensor


def begin(options: argparse.Namespace) -> Machine:
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    machine = Machine(options.loading_factors)
    if not on_gpu:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // machine.size))
    return machine


def speed_of_ranks(machine: Machine, graph: Graph, task: Task, options: argparse.Namespace) -> Speed:
    """Of a new model, which is gone when the group ends: the group waits for its threads, and those for Python's lock."""
    depth = len(options.fan_out.split(","))
    model = make_model(options.model, options.layers, task.num_features, task.num_classes, depth).to(machine.device)
    if dist.get_rank() == 0:
        say("start training...")
    total = torch.tensor(train(machine, graph, synchronized(model, machine), task.train, options), dtype=torch.double)
    dist.all_reduce(total)
    return Speed(total[0].item() / dist.get_world_size(), total[1].item())


def synchronized(model: torch.nn.Module, machine: Machine) -> torch.nn.Module:
    """Among several ranks."""
    if dist.get_world_size() == 1:
        return model
    if not machine.on_gpu:
        return DistributedDataParallel(model)
    with torch.cuda.stream(torch.cuda.Stream()):  # as recording wants it
        return DistributedDataParallel(model, device_ids=[machine.device.index])


def report(speed: Speed) -> None:
    if dist.get_rank() == 0:
        milliseconds = speed.seconds_per_iteration * 1000
        say(f"Time per iteration {milliseconds:.3f} ms | Throughput {speed.seeds_per_second:.3f} seeds/sec")


def run(options: argparse.Namespace) -> None:
    machine = begin(options)
    data = bench_data.read(options.dataset, pathlib.Path(options.root), weighted=options.bias) if machine.is_root else None
    task = machine.share(data and Task(data.features.shape[1], data.num_classes, data.train))
    if dist.get_rank() == 0:
        fanouts = [int(word) for word in options.fan_out.split(",")]
        num_gpus = dist.get_world_size() if machine.on_gpu else 0
        say(
            f"Dataset {options.dataset} | GPU num {num_gpus} | Model {options.model} | "
            f"Fan out {fanouts} | Batch size {options.batch_size} | Bias sampling {options.bias}"
        )
    copied = bytes_of(data, options.bias) if data is not None and wants_copies(options, machine.num_gpus) else 0
    machine.connect(copied, RESERVED[options.model])
    graph = Graph(machine, data, options)
    del data
    report(speed_of_ranks(machine, graph, task, options))
    dist.destroy_process_group()


def run_rank(rank: int, port: int, size: int, options: argparse.Namespace) -> None:
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    run(options)


def num_gpus_of_machine(options: argparse.Namespace) -> int:
    """Those that its ranks will use."""
    ranks = options.num_gpu
    if "RANK" in os.environ:
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ["WORLD_SIZE"])
    return min(ranks, torch.cuda.device_count()) if torch.cuda.is_available() else 0


def with_dashes(argument: str) -> str:
    """An option as it is called here: the benchmark for several machines spells --num-gpu as --num_gpu."""
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else argument


def parse(description: str | None = __doc__) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-gpu", type=int, default=8, help="processes, one per GPU; torchrun's count under torchrun")
    parser.add_argument("--num-epochs", type=int, default=1)
    parser.add_argument("--root", default="dataset/", help="where datasets are, and what is made of others is kept")
    parser.add_argument("--dataset", "--graph-name", default="ogbn-papers400M", help="ogbn-products, ogbn-papers100M, ogbn-papers400M or an input")
    parser.add_argument("--model", default="graphsage", choices=["graphsage", "gat"])
    parser.add_argument("--layers", default="strata", choices=["strata", "pyg"], help="whose layers the model has")
    parser.add_argument("--batch-size", type=int, default=1000, help="seeds per rank and iteration")
    parser.add_argument("--fan-out", default="15,15,15", help="neighbors per node, by layer; the last is of the seeds")
    parser.add_argument("--bias", action="store_true", help="sample with the graph's edge weights; without any, with half-normal ones, as generated graphs have them")
    parser.add_argument("--print-train", action="store_true", help="print loss and accuracy every 20 iterations")
    parser.add_argument("--feat-cache-rate", type=float, default=1, help="share of the features on all GPUs together; if this and --graph-cache-rate are the number of GPUs, each has a copy")
    parser.add_argument("--graph-cache-rate", type=float, default=1, help="share of the neighbor lists on all GPUs together, or copies; see --feat-cache-rate")
    parser.add_argument("--ahead", type=int, default=2, help="batches that are made while others are trained on")
    parser.add_argument("--loading-factors", action="store_true", help="report what a row costs from each tier")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--libdgs", help="taken for scripts that give it; the library is the package's")
    options = parser.parse_args([with_dashes(argument) for argument in sys.argv[1:]])
    if not all(word.isdigit() and int(word) > 0 for word in options.fan_out.split(",")):
        parser.error(f"--fan-out takes numbers such as 15,15,15, not {options.fan_out}")
    if min(options.num_gpu, options.batch_size, options.num_epochs) < 1 or options.ahead < 0:
        parser.error("--num-gpu, --batch-size and --num-epochs are at least 1, --ahead 0")
    if wrong := error_in_rates((options.feat_cache_rate, options.graph_cache_rate), num_gpus_of_machine(options)):
        parser.error(wrong)
    return options


def main() -> None:
    options = parse()
    if "RANK" in os.environ:
        return run(options)
    if int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1)) > 1:
        sys.exit("bench.py: start it without mpirun, as it starts its processes itself, or by torchrun")
    size = min(options.num_gpu, torch.cuda.device_count()) if torch.cuda.is_available() else options.num_gpu
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        torch.multiprocessing.spawn(run_rank, args=(port, size, options), nprocs=size)
    except torch.multiprocessing.ProcessExitedException as error:  # a rank has said why
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
