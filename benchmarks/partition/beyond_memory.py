#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures strata-partition on planted graphs of growing size: one row of a table per graph.

Memory is promised in proportion to the size. Graphs go to --inputs, parts and temporary files to --work; both are
folders; only files that this program wrote are removed.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODES_PER_PAIR = 111e6 / 1.6e9  # of papers100M
HEAD = ("M pairs", "M nodes", "--memory", "peak MiB", "bytes/node", "read s", "assign s", "ms per M entries", "whole s", "CPU s", "cut / planted")


def build(command: list[str]) -> tuple[dict[str, float], str, resource.struct_rusage, float]:
    """Runs it. Returns when its phases began, what it printed, what it used, and its seconds."""
    begin, marks, text = time.monotonic(), {}, []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        text.append(line)
        marks.setdefault(line.split(" ", 1)[0], time.monotonic() - begin)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit("".join(text))
    return marks, "".join(text), usage, time.monotonic() - begin


def measure(args: argparse.Namespace, pairs: int, inputs: Path, work: Path) -> tuple[str, ...]:
    nodes = int(pairs * NODES_PER_PAIR)
    generator = Path(__file__).with_name("planted_npy.py")
    planted = subprocess.run(
        [sys.executable, generator, inputs / "graph", "--nodes", str(nodes), "--edges", str(2 * pairs), "--once"],
        check=True, capture_output=True, text=True,
    ).stdout
    memory = f"{int(args.memory_per_pair * pairs / 2**20)}MiB"
    marks, text, usage, seconds = build(
        [args.program, "build", "--input", f"npy:{inputs / 'graph'}", "--direction", "undirected", "--parts", "64", "--method", "multilevel",
         "--memory", memory, "--device", args.device, "--output", str(work / "parts"), *(["--scratch", args.scratch] if args.scratch else [])]
    )
    cut = int(re.search(r"edge cut ([\d,]+)", text)[1].replace(",", "")) / 2
    between = int(re.search(r"(\d+) pairs between", planted)[1])
    until_cut = marks["relabeling"]
    return (
        f"{pairs / 1e6:g}", f"{nodes / 1e6:.1f}", memory, f"{usage.ru_maxrss / 1024:,.0f}", f"{usage.ru_maxrss * 1024 / nodes:.0f}",
        f"{marks['assigning']:.1f}", f"{until_cut - marks['assigning']:.1f}", f"{until_cut * 1e9 / (2 * pairs):.1f}", f"{seconds:.1f}",
        f"{usage.ru_utime + usage.ru_stime:.0f}", f"{cut / between:.3f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", default="5e6,1e7,2e7", help="of neighbors, with commas")
    parser.add_argument("--program", default="strata-partition")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--memory-per-pair", type=float, default=10.74, help="bytes promised: 16 GiB for 1.6e9")
    parser.add_argument("--inputs", default=tempfile.gettempdir())
    parser.add_argument("--work", default=tempfile.gettempdir())
    parser.add_argument("--scratch", help="folder for temporary files, if not --work")
    args = parser.parse_args()
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    for pairs in map(int, map(float, args.pairs.split(","))):
        inputs, work = Path(tempfile.mkdtemp(dir=args.inputs)), Path(tempfile.mkdtemp(dir=args.work))
        try:
            print("| " + " | ".join(measure(args, pairs, inputs, work)) + " |", flush=True)
        finally:
            shutil.rmtree(inputs)
            shutil.rmtree(work)


if __name__ == "__main__":
    main()
