# SPDX-License-Identifier: Apache-2.0
"""How fast are Dist-GPU-sampling's operators? Each beside what it should reach.

    python benchmarks/dgs/operators.py [--host-gib 64] [--json FILE]            # one GPU, or the CPU
    torchrun --nproc_per_node 4 benchmarks/dgs/operators.py                    # rows over four GPUs

A measurement is eight calls with different ids, one after the other; five runs warm up, then the median of ten counts, of the
slowest rank. WholeGraph samples the same graph where it is installed (pip install pylibwholegraph-cu13).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

import strata.dgs

ON_GPU = torch.cuda.is_available()
GIB = 1 << 30
CALLS, WARM_UP, RUNS = 8, 5, 10
ops = torch.ops.dgs_ops


def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if ON_GPU else torch.device("cpu")


def seconds_of(call: Callable[[int], Any]) -> float:
    """Per call."""

    def now() -> float:
        if ON_GPU:
            torch.cuda.synchronize()
        return time.perf_counter()

    measured = []
    for _ in range(WARM_UP + RUNS):
        start = now()
        for i in range(CALLS):
            call(i)
        measured.append((now() - start) / CALLS)
    median = torch.tensor([statistics.median(measured[WARM_UP:])], dtype=torch.double)
    if dist.is_initialized() and dist.get_world_size() > 1:  # WholeGraph makes a group of one rank, of GPU tensors alone
        dist.all_reduce(median, dist.ReduceOp.MAX)
    return median.item()


class Table:
    """Prints what is measured, on the first rank."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.speaks = not dist.is_initialized() or dist.get_rank() == 0

    def add(self, case: str, value: float, unit: str, seconds: float) -> None:
        self.rows.append({"case": case, "value": value, "unit": unit, "ms": seconds * 1000})
        if self.speaks:
            print(f"{case:<58} {value:10.2f} {unit:<9} {seconds * 1000:9.3f} ms", flush=True)


def chunk_tensor(tensor: torch.Tensor, capacity: int) -> Any:
    made = strata.dgs.ChunkTensor(tensor.shape, tensor.dtype, capacity)
    if not dist.is_initialized() or dist.get_rank() == 0:
        made._CAPI_load_from_tensor(tensor)
    if dist.is_initialized():
        dist.barrier()
    return made


def measure_index(table: Table, options: argparse.Namespace) -> None:
    """Rows of 512 bytes whose contents do not matter."""
    columns, ranks = 128, dist.get_world_size() if dist.is_initialized() else 1
    for place, gib in (("GPUs", options.gpu_gib * ranks), ("host", options.host_gib)):
        if place == "GPUs" and not ON_GPU:
            continue
        rows = int(gib * GIB) // (4 * columns)
        capacity = 0 if place == "host" else rows * 4 * columns
        tensor = strata.dgs.ChunkTensor([rows, columns], torch.float, capacity)
        ids = [torch.randint(0, rows, (options.rows,), device=device()) for _ in range(CALLS)]
        seconds = seconds_of(lambda i, tensor=tensor, ids=ids: tensor._CAPI_index(ids[i]))
        name = f"_CAPI_index, {options.rows} rows of 512 B, {gib:g} GiB on {place} ({ranks} ranks)"
        table.add(name, options.rows * 512 / seconds / 1e9, "GB/s", seconds)
        tensor.close()


def random_graph(nodes: int, degree: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    degrees = torch.randint(0, 2 * degree, (nodes,), generator=generator)
    indptr = torch.cat([torch.zeros(1, dtype=torch.long), degrees.cumsum(0)])
    return indptr, torch.randint(0, nodes, (int(indptr[-1]),), generator=generator)


def measure_sampling(table: Table, options: argparse.Namespace) -> None:
    indptr, indices = random_graph(options.nodes, options.degree)
    probs = torch.rand(len(indices), generator=torch.Generator().manual_seed(2)) + 0.01
    whole = 1 << 40
    chunks = [chunk_tensor(tensor, whole) for tensor in (indptr, indices, probs)]
    seeds = [torch.randint(0, options.nodes, (options.seeds,), device=device()) for _ in range(CALLS)]
    calls = {
        "_CAPI_sample_neighbors_with_chunk_tensor": lambda i: ops._CAPI_sample_neighbors_with_chunk_tensor(
            seeds[i], *chunks[:2], options.picks, False
        ),
        "_CAPI_sample_neighbors_with_probs_with_chunk_tensor": lambda i: (
            ops._CAPI_sample_neighbors_with_probs_with_chunk_tensor(seeds[i], *chunks, options.picks, False)
        ),
    }
    edges = {}
    for name, call in calls.items():
        edges[name] = len(call(0)[0])
        seconds = seconds_of(call)
        table.add(f"{name}, {options.seeds} seeds, k {options.picks}", edges[name] / seconds / 1e9, "G edges/s", seconds)
    measure_wholegraph(table, options, (indptr, indices, probs), seeds)
    for chunk in chunks:
        chunk.close()


def measure_wholegraph(table: Table, options: argparse.Namespace, graph: tuple[torch.Tensor, ...], seeds: list[torch.Tensor]) -> None:
    try:
        import pylibwholegraph.torch as wholegraph
        from pylibwholegraph.torch import wholegraph_ops
    except ImportError:
        if table.speaks:
            print("WholeGraph is not installed: nothing stands beside the samplers", flush=True)
        return
    if dist.is_initialized() or not ON_GPU:
        return
    communicator, _ = wholegraph.init_torch_env_and_create_wm_comm(0, 1, 0, 1)
    held = []
    for tensor in graph:
        made = wholegraph.create_wholememory_tensor(communicator, "continuous", "cuda", list(tensor.shape), tensor.dtype, [1])
        made.get_local_tensor(host_view=False)[0].copy_(tensor)
        held.append(made)
    handles = [made.wmb_tensor for made in held]
    for name, call in (
        ("uniform", lambda i: wholegraph_ops.unweighted_sample_without_replacement(*handles[:2], seeds[i], options.picks, i)),
        ("weighted", lambda i: wholegraph_ops.weighted_sample_without_replacement(*handles, seeds[i], options.picks, i)),
    ):
        edges = len(call(0)[1])
        seconds = seconds_of(call)
        table.add(f"WholeGraph, {name}, {options.seeds} seeds, k {options.picks}", edges / seconds / 1e9, "G edges/s", seconds)


def measure_relabel(table: Table, options: argparse.Namespace) -> None:
    ids = [torch.randint(0, options.ids, (options.ids,), device=device()) for _ in range(CALLS)]
    for name, call in (
        ("_CAPI_tensor_relabel", lambda i: ops._CAPI_tensor_relabel([ids[i]], [ids[i]])),
        ("torch.unique", lambda i: torch.unique(ids[i], return_inverse=True)),
    ):
        seconds = seconds_of(call)
        table.add(f"{name} of {options.ids} ids", options.ids / seconds / 1e6, "M ids/s", seconds)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu-gib", type=float, default=8, help="rows on every GPU")
    parser.add_argument("--host-gib", type=float, default=64)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a gather")
    parser.add_argument("--nodes", type=int, default=2_400_000)
    parser.add_argument("--degree", type=int, default=51, help="mean number of neighbors")
    parser.add_argument("--seeds", type=int, default=1_000_000)
    parser.add_argument("--picks", type=int, default=10)
    parser.add_argument("--ids", type=int, default=10_000_000, help="ids to relabel")
    parser.add_argument("--json", help="writes the results there, too")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
        if ON_GPU:
            torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    strata.dgs.create_communicator()
    table = Table()
    measure_index(table, options)
    measure_sampling(table, options)
    measure_relabel(table, options)
    if options.json and table.speaks:
        with open(options.json, "w") as file:
            json.dump(table.rows, file, indent=1)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
