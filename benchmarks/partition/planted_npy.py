#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a planted graph of any size as an npy folder, piece by piece: every pair of neighbors in both directions.

Nodes belong to communities of equal size, whose members lie far from each other in the numbering. An edge stays in
its community with probability --within; else its other end is any node.
"""

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

PIECE = 1 << 21


def spread(nodes: np.ndarray, count: int) -> np.ndarray:
    """A bijection of [0, count) that sends neighbors in the order far from each other."""
    step = next(s for s in range(int(count * 0.6180339887) | 1, 2 * count, 2) if np.gcd(s, count) == 1)
    return (nodes * step + 12345) % count


def write_piece(args: argparse.Namespace, path: Path, data: int, begin: int) -> int:
    """Writes the pairs from `begin` on, whose array begins at byte `data`. Returns how many are between communities."""
    pairs = args.edges // 2
    count, size = min(PIECE, pairs - begin), args.nodes // args.communities
    rng = np.random.default_rng([args.seed, begin // PIECE])
    first = rng.integers(0, args.nodes, count)
    near = np.minimum(first // size, args.communities - 1) * size + rng.integers(0, size, count)
    stays = rng.random(count) < args.within
    second = np.where(stays, near, rng.integers(0, args.nodes, count))
    a, b = (spread(ids, args.nodes).astype(np.int32).tobytes() for ids in (first, second))
    rows = ((a,), (b,)) if args.once else ((a, b), (b, a))
    file = os.open(path, os.O_WRONLY)
    for row, columns in enumerate(rows):
        for column, ids in enumerate(columns):
            os.pwrite(file, ids, data + 4 * ((row * len(columns) + column) * pairs + begin))
    os.close(file)
    return int(np.count_nonzero(first // size != second // size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--edges", type=int, required=True, help="entries: both directions of every pair")
    parser.add_argument("--once", action="store_true", help="list each pair once, for --direction undirected")
    parser.add_argument("--communities", type=int, default=1024)
    parser.add_argument("--within", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.output.mkdir(parents=True)
    path, pairs = args.output / "edge_index.npy", args.edges // 2
    shape = (2, pairs if args.once else 2 * pairs)
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<i4", "fortran_order": False, "shape": shape})
        data = file.tell()
        file.truncate(data + 4 * shape[0] * shape[1])
    with ProcessPoolExecutor() as pool:
        planted = sum(pool.map(partial(write_piece, args, path, data), range(0, pairs, PIECE)))
    np.save(args.output / "num_nodes.npy", np.array(args.nodes))
    print(f"{args.output}: {args.nodes} nodes, {2 * pairs} entries, {planted} pairs between communities")


if __name__ == "__main__":
    main()
