#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a planted graph of any size as an npy folder, piece by piece: every pair of neighbors in both directions.

Nodes belong to communities of equal size, whose members lie far from each other in the numbering. An edge stays in
its community with probability --within; else its other end is any node.
"""

import argparse
from pathlib import Path

import numpy as np

PIECE = 1 << 22


def spread(nodes: np.ndarray, count: int) -> np.ndarray:
    """A bijection of [0, count) that sends neighbors in the order far from each other."""
    step = next(s for s in range(int(count * 0.6180339887) | 1, 2 * count, 2) if np.gcd(s, count) == 1)
    return (nodes * step + 12345) % count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--edges", type=int, required=True, help="entries: both directions of every pair")
    parser.add_argument("--communities", type=int, default=1024)
    parser.add_argument("--within", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.output.mkdir(parents=True)
    rng = np.random.default_rng(args.seed)
    pairs = args.edges // 2
    size = args.nodes // args.communities
    out = np.lib.format.open_memmap(args.output / "edge_index.npy", mode="w+", dtype=np.int32, shape=(2, 2 * pairs))
    planted = 0
    for begin in range(0, pairs, PIECE):
        count = min(PIECE, pairs - begin)
        first = rng.integers(0, args.nodes, count)
        near = np.minimum(first // size, args.communities - 1) * size + rng.integers(0, size, count)
        stays = rng.random(count) < args.within
        second = np.where(stays, near, rng.integers(0, args.nodes, count))
        planted += int(np.count_nonzero(first // size != second // size))
        a, b = spread(first, args.nodes), spread(second, args.nodes)
        out[0, begin : begin + count], out[1, begin : begin + count] = a, b
        out[0, pairs + begin : pairs + begin + count], out[1, pairs + begin : pairs + begin + count] = b, a
        out.flush()
    np.save(args.output / "num_nodes.npy", np.array(args.nodes))
    print(f"{args.output}: {args.nodes} nodes, {2 * pairs} entries, {planted} pairs between communities")


if __name__ == "__main__":
    main()
