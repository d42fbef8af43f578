# SPDX-License-Identifier: Apache-2.0
"""Rows that are learned: gathers and updates of distinct rows per second, beside what the host link or the GPU's memory allows.

    embeddings.py [--scale 0.25] [--width 128] [--distinct 300000] [--cases sgd rowwise_adagrad adam hbm] [--hot 100000]

On one GPU, or on several of a host, of which each has rows of its own to gather and update; times are those of rank 0. Tables in host memory are held against copies over the host link in the same run, by the bytes that cross it in the direction
that has more; the one in the GPU's memory against a copy within it, by all bytes that are read and written. `--hot` further gradients
are all of one row. Prints a table and a line of JSON per case.
"""

import argparse
import json
import statistics
import time

import torch

import strata

ROWS = {"sgd": 100_000_000, "rowwise_adagrad": 100_000_000, "adam": 60_000_000, "hbm": 50_000_000}
STATES = {"sgd": 0, "rowwise_adagrad": 0, "adam": 2, "hbm": 2}  # rows of state beside a row


def seconds_of(call, repeats=12):
    """The median, by events, after two calls for warming up."""
    times = []
    for _ in range(repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times[2:])


def limits(device):
    """Bytes per second: to the GPU, from it, and read and written by a copy within it."""
    size = 1 << 30
    host, here, there = (
        torch.empty(size, dtype=torch.uint8).pin_memory(),
        *(torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2)),
    )
    return {
        "read": size / seconds_of(lambda: here.copy_(host, non_blocking=True), 5),
        "write": size / seconds_of(lambda: host.copy_(here, non_blocking=True), 5),
        "copy": 2 * size / seconds_of(lambda: there.copy_(here), 5),
    }


def measure(name, options, limit, device):
    count, width = int(ROWS[name] * options.scale), options.width
    begin = time.perf_counter()
    rows = strata.Embedding(
        count, width, optimizer=name if name != "hbm" else "adam", placement="striped" if name == "hbm" else "host"
    )
    torch.cuda.synchronize()
    made = time.perf_counter() - begin
    torch.manual_seed(strata.process().rank)
    drawn = torch.randint(count, (8, options.distinct + options.distinct // 8), device=device)
    sets = [ids.unique()[torch.randperm(len(ids.unique()), device=device)][: options.distinct] for ids in drawn]
    gradients = torch.randn(options.distinct, width, device=device)
    calls = iter(range(1 << 30))

    def ids():
        of_call = sets[next(calls) % len(sets)]
        return of_call, gradients[: len(of_call)]

    def update():
        rows._gradients.append(ids())
        rows.step()

    def update_hot():
        some, of_some = ids()
        rows._gradients += [(some, of_some), (some[:1].expand(options.hot), hot)]
        rows.step()

    hot = torch.randn(options.hot, width, device=device)
    times = {
        "gather": seconds_of(lambda: rows._read("weight", ids()[0])),
        "update": seconds_of(update),
        "update, one hot row": seconds_of(update_hot),
    }
    row_bytes = 4 * width * options.distinct
    of_rows = (1 + STATES[name]) * row_bytes
    for what, seconds in times.items():
        if name == "hbm":
            moved, allowed = (2 * row_bytes if what == "gather" else row_bytes + 2 * of_rows), limit["copy"]
        else:
            moved = row_bytes if what == "gather" else of_rows
            allowed = limit["read"] if what == "gather" else min(limit["read"], limit["write"])
        record = {
            "case": name,
            "rows": count,
            "what": what,
            "ms": round(seconds * 1e3, 3),
            "GB/s": round(moved / seconds / 1e9, 1),
        }
        record |= {
            "limit GB/s": round(allowed / 1e9, 1),
            "share": round(moved / seconds / allowed, 2),
            "made in s": round(made, 1),
        }
        if strata.process().rank == 0:
            print(json.dumps(record), flush=True)
            yield record
    rows.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--distinct", type=int, default=300_000)
    parser.add_argument("--hot", type=int, default=100_000)
    parser.add_argument("--cases", nargs="+", choices=list(ROWS), default=list(ROWS))
    options = parser.parse_args()
    device = torch.device(strata.process().device)
    if device.type != "cuda":
        raise SystemExit("needs a GPU")
    limit = limits(device)
    if strata.process().rank == 0:
        print(torch.cuda.get_device_name(device), {name: round(rate / 1e9, 1) for name, rate in limit.items()}, flush=True)
    records = [record for name in options.cases for record in measure(name, options, limit, device)]
    if strata.process().rank > 0:
        return
    print(f"{'case':<18}{'rows':>12}  {'what':<20}{'ms':>8}{'GB/s':>8}{'limit':>8}{'share':>7}")
    for r in records:
        print(f"{r['case']:<18}{r['rows']:>12,}  {r['what']:<20}{r['ms']:>8}{r['GB/s']:>8}{r['limit GB/s']:>8}{r['share']:>7}")


if __name__ == "__main__":
    main()
