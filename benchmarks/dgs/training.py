# SPDX-License-Identifier: Apache-2.0
"""How fast does examples/dgs/bench.py train, beside the same model and loop on WholeGraph with PyTorch Geometric's layers?

    python benchmarks/dgs/training.py --dataset synthetic:products --root dataset
    torchrun --nproc_per_node 4 benchmarks/dgs/training.py --dataset synthetic:products --root dataset --num-epochs 4

Options are those of bench.py; with --bias and without it are measured in any case. Where each GPU has copies (--feat-cache-rate 4
--graph-cache-rate 4 on four GPUs), it has WholeGraph's, too. WholeGraph: pip install pylibwholegraph-cu13.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/dgs"))
import bench  # noqa: E402
import bench_data  # noqa: E402
from bench_models import Layer  # noqa: E402
from bench_training import Batch  # noqa: E402


class WholeGraphGraph:
    """The counterpart of bench.Graph on tensors of WholeGraph in GPU memory."""

    has_buffers, table = False, None

    def __init__(self, communicator: Any, data: bench_data.Data, device: torch.device, bias: bool) -> None:
        import pylibwholegraph.torch as wholegraph

        def shared(tensor: torch.Tensor) -> Any:
            strides = [tensor.shape[1], 1] if tensor.dim() == 2 else [1]
            made = wholegraph.create_wholememory_tensor(communicator, "continuous", "cuda", list(tensor.shape), tensor.dtype, strides)
            local, first = made.get_local_tensor(host_view=False)
            local.copy_(tensor[first : first + len(local)])
            communicator.barrier()
            return made

        self.structure = wholegraph.GraphStructure()
        self.structure.set_csr_graph(shared(data.indptr), shared(data.indices))
        self.weights = "weights" if bias else None
        if bias:
            self.structure.set_edge_attribute(self.weights, shared(bench.weights_of(data)))
        self.features, self.labels = shared(data.features), data.labels.to(device)

    def sample(self, seeds: torch.Tensor, fanouts: list[int]) -> tuple[torch.Tensor, list[Layer]]:
        nodes, edges, _, _ = self.structure.multilayer_sample_without_replacement(seeds, fanouts[::-1], self.weights)
        return nodes[0], [Layer(*e.long(), len(a), len(b)) for e, a, b in zip(edges, nodes, nodes[1:])]

    def batch(self, sample: tuple[torch.Tensor, list[Layer]], seeds: torch.Tensor) -> Batch:
        nodes, layers = sample
        return Batch(self.features.gather(nodes), layers, self.labels[seeds])


def communicator_of_wholegraph(machine: bench.Machine) -> Any:
    """The communicator of all ranks, or of only this one if each GPU has copies; None without WholeGraph."""
    if not machine.on_gpu:
        return None
    try:
        import pylibwholegraph.torch as wholegraph
    except ImportError:
        return None
    rank, ranks = dist.get_rank(), dist.get_world_size()
    wholegraph.init(rank, ranks, rank % machine.size, machine.size, "warn")
    return wholegraph.get_local_device_communicator() if machine.copies else wholegraph.get_global_communicator()


def with_options(options: argparse.Namespace, **changes: Any) -> argparse.Namespace:
    return argparse.Namespace(**(vars(options) | changes))


def measure(machine: bench.Machine, name: str, graph: Any, task: bench.Task, options: argparse.Namespace) -> float:
    speed = bench.speed_of_ranks(machine, graph, task, options)
    if dist.get_rank() == 0:
        bench.say(f"{name}, {'with' if options.bias else 'without'} --bias")
    bench.report(speed)
    return speed.seconds_per_iteration


def measure_all(options: argparse.Namespace) -> None:
    machine = bench.begin(options)
    data = bench_data.read(options.dataset, pathlib.Path(options.root), weighted=True) if machine.is_root else None
    dist.barrier()  # what the first rank has converted is there for all
    data = data or bench_data.read(options.dataset, pathlib.Path(options.root), weighted=True)
    task = bench.Task(data.features.shape[1], data.num_classes, data.train)
    both = 2 * bench.bytes_of(data, bias=True)  # Strata's memory returns when its next graph is made
    machine.connect(both if bench.wants_copies(options, machine.num_gpus) else 0, bench.RESERVED[options.model])
    communicator = communicator_of_wholegraph(machine)
    for bias in (False, True):
        ours = with_options(options, bias=bias)
        graph = bench.Graph(machine, data if machine.is_root else None, ours)
        seconds = measure(machine, "Strata", graph, task, ours)
        del graph
        if communicator is None:
            continue
        graph = WholeGraphGraph(communicator, data, machine.device, bias)
        other = min(
            measure(machine, f"WholeGraph, {ahead} batches ahead", graph, task, with_options(ours, layers="pyg", ahead=ahead))
            for ahead in sorted({0, options.ahead})
        )
        del graph
        if dist.get_rank() == 0:
            bench.say(f"Strata is {other / seconds:.2f} times as fast")
    if communicator is None and dist.get_rank() == 0:
        bench.say("WholeGraph is not installed, or there is no GPU: nothing stands beside Strata")
    dist.destroy_process_group()


def main() -> None:
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    options = bench.parse(__doc__)
    measure_all(options)


if __name__ == "__main__":
    main()
