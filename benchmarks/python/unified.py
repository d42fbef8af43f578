# SPDX-License-Identifier: Apache-2.0
"""Rows of a CPU tensor on the GPU: strata.unified(tensor)[index] beside a copy to the GPU and beside gather-and-copy.

    unified.py [--gib 16] [--rows 1000000] [--row-bytes 512] [--json FILE]
"""

import argparse
import json
import statistics
import time

import torch

import strata


def timed(run):
    seconds = []
    for _ in range(7):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds[2:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=16)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--row-bytes", type=int, default=512)
    parser.add_argument("--json")
    options = parser.parse_args()
    cols = options.row_bytes // 4
    tensor = torch.empty((int(options.gib * 2**30) // options.row_bytes, cols))
    tensor.fill_(1)
    u = strata.unified(tensor)
    buffer = torch.empty((options.rows, cols), device="cuda")
    random = torch.randint(len(tensor), (options.rows,))
    index = {"random": random.cuda(), "sorted": random.sort().values.cuda()}
    pinned = torch.empty((options.rows, cols), pin_memory=True)
    gigabytes = options.rows * options.row_bytes / 1e9
    rows = {"copy of pinned memory": timed(lambda: buffer.copy_(pinned, non_blocking=True))}
    for name, ids in index.items():
        rows[f"unified, {name}"] = timed(lambda ids=ids: torch.index_select(u, 0, ids, out=buffer))
    rows["tensor[index].to('cuda'), random"] = timed(lambda: tensor[random].to("cuda"))
    rates = {name: gigabytes / seconds for name, seconds in rows.items()}
    limit = rates["copy of pinned memory"]
    print(f"{options.rows} rows of {options.row_bytes} B of {options.gib} GiB on {torch.cuda.get_device_name()}")
    for name, rate in rates.items():
        print(f"{name:36} {rate:7.1f} GB/s, {rate / limit:.2f} of the copy")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rates, file, indent=1)


if __name__ == "__main__":
    main()
