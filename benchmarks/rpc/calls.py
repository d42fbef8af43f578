# SPDX-License-Identifier: Apache-2.0
"""Calls between two ranks of this host from Python: strata.rpc beside torch.distributed.rpc, and what limits them.

    calls.py [--device auto|cpu|cuda] [--only strata|torch] [--quick] [--json FILE]

Both run the same code in processes of their own, one after the other, with half of the cores for each rank, four of them not for torch's threads. With one GPU, both ranks use it; without, the rows of GPUs
say "not measured". Medians of 200 after a warm-up; "cold" is the first ten steps in new processes, "warm" the median of ten more.
"""

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import socket
import statistics
import tempfile
import threading
import time

import torch
import torch.multiprocessing as mp

PEERS = {
    "strata": ("strata.rpc", "strata.rpc.autograd"),
    "torch": ("torch.distributed.rpc", "torch.distributed.autograd"),
}
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    unit: str
    limit: str = ""  # what the third figure is
    bar: str = ""


CASES = [
    Case("empty call, median", "us", bar="25 us"),
    Case("empty call, p99", "us", bar="80 us"),
    Case("4 B there and back, CPU", "us"),
    Case("4 B there and back, CUDA", "us", bar="80 us"),
    Case("4 MB one way, CUDA", "us", "device copy", "0.5 of the copy's rate, beyond an empty call"),
    Case("64 MiB one way, CUDA", "us", "device copy", "0.90 of the copy"),
    Case("64 MiB one way, CPU", "us", "copy in memory", "1.5 GB/s: 45 ms"),
    Case("recipe, cpu, cold", "ms"),
    Case("recipe, cpu, warm", "ms", "its products", "a third of torch"),
    Case("recipe, cuda, cold", "ms", bar="half of torch"),
    Case("recipe, cuda, warm", "ms", "its products", "twice products and copies: a fifth of torch"),
    Case("training step beside 100 calls per second", "of the step", bar="1.02"),
    Case("idle agent", "% of a core", bar="1"),
]


@dataclasses.dataclass(frozen=True)
class Setup:
    peer: str
    devices: tuple[str, str]  # of the ranks
    calls: int
    width: int
    port: int
    result: str  # a file

    @property
    def on_gpu(self):
        return self.devices[0] != "cpu"


# ---- what runs on the other rank ----


def nothing():
    pass


def give_back(x):
    return x


def receive(x):
    if x.is_cuda:
        torch.cuda.current_stream(x.device).synchronize()


class Shard(torch.nn.Module):
    def __init__(self, device, to_cpu, width):
        super().__init__()
        self.device = device
        self.to_cpu = to_cpu
        self.linear = torch.nn.Linear(width, width).to(device)

    def forward(self, x):
        y = self.linear(x.to(self.device))
        return y.cpu() if self.to_cpu else y


# ---- what rank 0 measures ----


def wait_for(device):
    if device != "cpu":
        torch.cuda.synchronize(device)


def times(run, count, device="cpu"):
    """Microseconds of each."""
    for _ in range(max(3, count // 10)):
        run()
    found = []
    for _ in range(count):
        wait_for(device)
        begun = time.perf_counter()
        run()
        wait_for(device)
        found.append((time.perf_counter() - begun) * 1e6)
    return found


def there_and_back(rpc, x):
    def run():
        return rpc.rpc_sync("worker1", give_back, args=(x,))[0].item()  # usable here

    return run


def measure_calls(rpc, setup):
    def one_way(x):
        return lambda: rpc.rpc_sync("worker1", receive, args=(x,))

    few = max(5, setup.calls // 10)
    empty = times(lambda: rpc.rpc_sync("worker1", nothing), setup.calls)
    rows = {
        "empty call, median": statistics.median(empty),
        "empty call, p99": statistics.quantiles(empty, n=100)[98],
        "4 B there and back, CPU": statistics.median(times(there_and_back(rpc, torch.ones(1)), setup.calls)),
        "64 MiB one way, CPU": statistics.median(times(one_way(torch.ones(16 * MIB)), few)),
    }
    if setup.on_gpu:
        here = setup.devices[0]
        rows["4 B there and back, CUDA"] = statistics.median(
            times(there_and_back(rpc, torch.ones(1, device=here)), setup.calls, here)
        )
        rows["4 MB one way, CUDA"] = statistics.median(times(one_way(torch.ones(1_000_000, device=here)), setup.calls, here))
        rows["64 MiB one way, CUDA"] = statistics.median(times(one_way(torch.ones(16 * MIB, device=here)), few, here))
    return rows


def measure_recipe(rpc, autograd, setup, mode):
    here, there = setup.devices
    mine = Shard(here, mode == "cpu", setup.width)
    other = rpc.remote("worker1", Shard, args=(there, mode == "cpu", setup.width))
    x = torch.randn(setup.width, setup.width).to(here)

    def ten_steps():
        for _ in range(10):
            with autograd.context() as context_id:
                autograd.backward(context_id, [other.rpc_sync().forward(mine(x)).sum()])
        wait_for(here)

    def milliseconds():
        begun = time.perf_counter()
        ten_steps()
        return (time.perf_counter() - begun) * 1e3

    return {
        f"recipe, {mode}, cold": milliseconds(),
        f"recipe, {mode}, warm": statistics.median(milliseconds() for _ in range(10)),
    }


class Step:
    """A training step of three layers over rows that were gathered before, as large as a GNN's on ogbn-products (fewer on a CPU)."""

    def __init__(self, device, on_gpu):
        self.rows = [200_000, 20_000, 1024] if on_gpu else [8_000, 2_000, 256]
        sizes = [100, 256, 256, 47]
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))).to(device)
        self.optimizer = torch.optim.Adam(self.layers.parameters())
        self.x = torch.randn(self.rows[0], sizes[0], device=device)
        self.labels = torch.randint(sizes[-1], (self.rows[-1],), device=device)
        # The row of the next layer that each row is added to.
        self.targets = [torch.randint(few, (many,), device=device) for many, few in zip(self.rows, self.rows[1:])]

    def __call__(self):
        x = self.x
        for layer, targets, rows in zip(self.layers, [*self.targets, None], [*self.rows[1:], None]):
            x = layer(x)
            if rows:
                x = torch.zeros(rows, x.shape[1], device=x.device).index_add_(0, targets, x).relu()
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(x, self.labels).backward()
        self.optimizer.step()


@contextlib.contextmanager
def calling(rpc, per_second):
    """Calls the other rank from a thread of its own."""
    ended = threading.Event()

    def call():
        next_time = time.monotonic()
        while not ended.wait(max(0.0, next_time - time.monotonic())):
            rpc.rpc_sync("worker1", nothing)
            next_time += 1 / per_second

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measure_training(rpc, setup):
    step = Step(setup.devices[0], setup.on_gpu)
    alone, beside = [], []
    for _ in range(5):  # in turns, because a machine's speed changes
        alone += times(step, max(5, setup.calls // 5), setup.devices[0])
        with calling(rpc, 100):
            beside += times(step, max(5, setup.calls // 5), setup.devices[0])
    return {"training step beside 100 calls per second": statistics.median(beside) / statistics.median(alone)}


def measure_idle():
    used = time.process_time()
    time.sleep(1)
    return {"idle agent": (time.process_time() - used) * 100}


def threads_of_rank():
    return max(1, len(os.sched_getaffinity(0)) // 2 - 4)


def run_rank(rank, setup):
    torch.set_num_threads(threads_of_rank())
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(setup.port))
    rpc, autograd = (importlib.import_module(name) for name in PEERS[setup.peer])
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=16)
    if rank == 0 and setup.on_gpu:
        options.set_device_map("worker1", {setup.devices[0]: setup.devices[1]})
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        rows = {}
        for mode in ["cpu", "cuda"] if setup.on_gpu else ["cpu"]:  # first, because these may be cold
            rows |= measure_recipe(rpc, autograd, setup, mode)
        rows |= measure_calls(rpc, setup)
        rows |= measure_training(rpc, setup)
        rows |= measure_idle()
        pathlib.Path(setup.result).write_text(json.dumps(rows))
    rpc.shutdown()


# ---- what limits them ----


def measure_products(device, width):
    """The five of ten steps, in milliseconds: two forward, and backward two for weights and one for what comes in between."""
    a, b = torch.randn(width, width, device=device), torch.randn(width, width, device=device)
    return statistics.median(times(lambda: [a @ b for _ in range(50)], 10, device)) / 1e3


def measure_limits(setup):
    torch.set_num_threads(threads_of_rank())
    x, y = torch.ones(16 * MIB), torch.empty(16 * MIB)
    rows = {
        "64 MiB one way, CPU": statistics.median(times(lambda: y.copy_(x), 20)),
        "recipe, cpu, warm": measure_products(setup.devices[0], setup.width),
    }
    if setup.on_gpu:
        here, there = setup.devices
        for case, size in (("4 MB one way, CUDA", 1_000_000), ("64 MiB one way, CUDA", 16 * MIB)):
            sent, received = torch.ones(size, device=here), torch.empty(size, device=there)
            rows[case] = statistics.median(times(lambda r=received, s=sent: r.copy_(s), 50, here))
        rows["recipe, cuda, warm"] = rows["recipe, cpu, warm"]
    return rows


# ---- the table ----


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def measure_peer(setup, most_seconds):
    """Its rows, and why there are none."""
    context = mp.spawn(run_rank, args=(setup,), nprocs=2, join=False)
    deadline = time.monotonic() + most_seconds
    try:
        while not context.join(timeout=1):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {most_seconds} s")
        return json.loads(pathlib.Path(setup.result).read_text()), ""
    except Exception as error:
        return {}, str(error).strip().splitlines()[-1]
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
            process.join()


def devices_of(choice):
    gpus = torch.cuda.device_count()
    if choice == "cuda" and gpus == 0:
        raise SystemExit("calls.py: there is no GPU here; --device cpu measures without")
    if choice == "cpu" or gpus == 0:
        return "cpu", "cpu"
    return "cuda:0", f"cuda:{min(1, gpus - 1)}"


def text_of(value):
    return "not measured" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--quick", action="store_true", help="few calls and small layers: shows that it runs")
    parser.add_argument("--only", choices=PEERS, help="leave the other out")
    parser.add_argument("--most-seconds", type=float, default=300, help="for each of the two")
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    devices = devices_of(given.device)
    found, reasons = {}, {}
    with tempfile.TemporaryDirectory(prefix="strata-rpc-") as folder:
        for peer in [given.only] if given.only else PEERS:
            setup = Setup(
                peer=peer,
                devices=devices,
                calls=20 if given.quick else 200,
                width=100 if given.quick else 1000,
                port=free_port(),
                result=f"{folder}/{peer}.json",
            )
            found[peer], reasons[peer] = measure_peer(setup, given.most_seconds)
    found["limit"] = measure_limits(setup)
    machine = torch.cuda.get_device_name(0) if devices[0] != "cpu" else "CPU"
    print(f"{machine}, ranks on {devices[0]} and {devices[1]}, torch {torch.__version__}")
    print(f"{'case':42} {'unit':12} {'strata.rpc':>12} {'torch rpc':>12} {'limit':>12}  bar")
    rows = []
    for case in CASES:
        values = {name: rows_of.get(case.name) for name, rows_of in found.items()}
        rows.append({"case": case.name, "unit": case.unit, **values, "limit_is": case.limit, "bar": case.bar})
        limit = text_of(values["limit"]) if case.limit else ""
        print(
            f"{case.name:42} {case.unit:12} {text_of(values.get('strata')):>12} {text_of(values.get('torch')):>12} {limit:>12}  {case.bar}"
        )
    for peer, reason in reasons.items():
        if reason:
            print(f"{peer}: {reason}")
    if given.json:
        given.json.write_text(
            json.dumps(
                {"machine": machine, "devices": devices, "torch": torch.__version__, "rows": rows, "reasons": reasons}, indent=1
            )
        )
    raise SystemExit(1 if reasons.get("strata") else 0)


if __name__ == "__main__":
    main()
