# SPDX-License-Identifier: Apache-2.0
"""PyTorch's recipe for calls from device to device, with changed imports: two Linear layers on two ranks.

worker0 and worker1 have a layer each. worker0 sends a batch forward through both, runs backward through both, and prints how
long ten such steps take: in the mode "cpu" tensors cross as CPU tensors, in the mode "cuda" as GPU tensors. Without a GPU, the
layers lie on the CPU, too.

    python rpc_two_shards.py                      # what the machine can do
    python rpc_two_shards.py --modes cuda cpu     # in this order
"""

import argparse
import os
import socket
import statistics
import time

import torch
import torch.multiprocessing as mp
from torch import nn

import strata.rpc as rpc
import strata.rpc.autograd as autograd


class Shard(nn.Module):
    def __init__(self, device: str, mode: str, width: int) -> None:
        super().__init__()
        self.device = device
        self.mode = mode
        self.linear = nn.Linear(width, width).to(device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x.to(self.device))
        return y.cpu() if self.mode == "cpu" else y


def devices() -> tuple[str, str]:
    """Of the two shards. On a machine with one GPU they share it."""
    gpus = torch.cuda.device_count()
    return ("cuda:0", f"cuda:{min(1, gpus - 1)}") if gpus else ("cpu", "cpu")


def ten_steps(mine: Shard, other: rpc.RRef[Shard], x: torch.Tensor) -> float:
    """Seconds."""
    begun = time.perf_counter()
    for _ in range(10):
        with autograd.context() as context_id:
            y = other.rpc_sync().forward(mine(x))
            autograd.backward(context_id, [y.sum()])
    if x.is_cuda:
        torch.cuda.current_stream(x.device).synchronize()
    return time.perf_counter() - begun


def measure(mode: str, width: int, more: int) -> None:
    here, there = devices()
    mine = Shard(here, mode, width)
    other = rpc.remote("worker1", Shard, args=(there, mode, width))
    x = torch.randn(width, width).to(here)
    print(f"{mode} RPC total execution time: {ten_steps(mine, other, x)} Seconds", flush=True)
    if more:
        print(
            f"{mode} RPC, median of {more} more: {statistics.median(ten_steps(mine, other, x) for _ in range(more))} Seconds",
            flush=True,
        )


def run_worker(rank: int, port: int, modes: list[str], width: int, more: int) -> None:
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=16)
    here, there = devices()
    if rank == 0 and here != "cpu":
        options.set_device_map("worker1", {here: there})
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        for mode in modes:
            measure(mode, width, more)
    rpc.shutdown()  # waits for all calls, on both ranks


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    has_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="+", choices=["cpu", "cuda"], default=["cpu", "cuda"] if has_gpu else ["cpu"])
    parser.add_argument("--width", type=int, default=1000, help="features of the layers, and rows of the batch")
    parser.add_argument("--more", type=int, default=10, help="how often ten steps are measured again, warm")
    given = parser.parse_args()
    if given.width < 1 or given.more < 0:
        parser.error("--width is at least 1, --more at least 0")
    if "cuda" in given.modes and not has_gpu:
        parser.error("there is no GPU here for the mode cuda")
    mp.spawn(run_worker, args=(free_port(), given.modes, given.width, given.more), nprocs=2)


if __name__ == "__main__":
    main()
