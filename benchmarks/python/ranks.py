#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds to rank edges by strata.metrics, beyond the rows of nodes: among own candidates, among those that all edges or groups of
them share, and among all nodes.

    ranks.py [--edges 1000000] [--candidates 1000] [--nodes 1000000] [--columns 256] [--dtype float32] [--json FILE]

Edges among all nodes are a hundredth of the others.
"""

import argparse
import json
import pathlib
import time

import torch

import strata
from strata import metrics, nn


def seconds_of(call, device):
    """The least of three, after one."""
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("edges", 1_000_000), ("candidates", 1000), ("nodes", 1_000_000), ("columns", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = {}
    device = torch.device(strata.process().device)
    rows = torch.randn(options.nodes, options.columns, device=device, dtype=getattr(torch, options.dtype))
    relations = 10
    head, tail = torch.randint(options.nodes, (2, options.edges), device=device)
    relation = torch.randint(relations, (options.edges,), device=device)
    own = torch.randint(options.nodes, (options.edges, options.candidates), device=device)
    known = metrics.KnownEdges(head, relation, tail)
    decoder = nn.DistMult(relations, options.columns).to(device)
    few = slice(0, max(1, options.edges // 100))
    size = min(1000, options.edges)  # of groups
    sets = torch.randint(options.nodes, (-(-options.edges // size), options.candidates), device=device)
    groups = torch.arange(options.edges, device=device) // size
    cases = {
        f"{options.edges} edges, {options.candidates} own candidates": (slice(None), own, None, None),
        f"{options.edges} edges, {options.candidates} own candidates, filtered": (slice(None), own, None, known),
        f"{options.edges} edges, {options.candidates} shared candidates": (slice(None), own[0], None, None),
        f"{options.edges} edges, {options.candidates} shared candidates, filtered": (slice(None), own[0], None, known),
        f"{options.edges} edges, {options.candidates} candidates of groups of {size}": (slice(None), sets, groups, None),
        f"{options.edges // 100} edges, all nodes": (few, None, None, None),
        f"{options.edges // 100} edges, all nodes, filtered": (few, None, None, known),
    }
    for name, (part, candidates, of_edges, left_out) in cases.items():
        edges = head[part], relation[part], tail[part]
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        given = {"candidates": candidates, "groups": of_edges, "known": left_out}
        seconds = seconds_of(lambda: metrics.link_ranks(decoder, rows, *edges, **given), device)
        peak = f", {(torch.cuda.max_memory_allocated() - before) / 2**30:.2f} GiB" if device.type == "cuda" else ""
        results[name] = seconds
        print(f"{name}: {seconds:.3f} s{peak}", flush=True)
    if options.json:
        options.json.write_text(
            json.dumps({"dtype": options.dtype, "columns": options.columns, "seconds": results}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
