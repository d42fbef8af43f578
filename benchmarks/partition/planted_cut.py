#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pairs between the classes of a block model, and the fewest that groups of whole classes cut.

    strata-partition convert synthetic:kind=sbm,nodes=500000,edges=20000000,features=1,classes=64 npy:sbm
    planted_cut.py sbm --parts 8,64 [--starts 300]

DIR holds edge_index.npy with both directions of every pair, without self-loops, and y.npy. Groups hold equally many classes;
the best ones are looked for by exchanges of two classes from random starts.
"""
import argparse
import pathlib

import numpy as np

PIECE = 1 << 20


def pairs_between(folder):
    """[classes, classes], symmetric, 0 on the diagonal."""
    edges = np.load(folder / 'edge_index.npy', mmap_mode='r')
    classes = np.load(folder / 'y.npy').astype(np.int64)
    count = int(classes.max()) + 1
    entries = np.zeros(count * count, np.int64)
    for first in range(0, edges.shape[1], PIECE):
        source, target = classes[edges[:, first:first + PIECE]]
        entries += np.bincount(source * count + target, minlength=count * count)
    entries = entries.reshape(count, count)
    np.fill_diagonal(entries, 0)
    return (entries + entries.T) // 2


def cut(pairs, group):
    return int(pairs[group[:, None] != group[None, :]].sum()) // 2


def improve(pairs, group, parts):
    """Exchanges the two classes whose exchange saves most pairs, as long as there are such."""
    every = np.arange(len(group))
    while True:
        to_group = np.stack([pairs[:, group == part].sum(1) for part in range(parts)], 1)
        own = to_group[every, group]
        other = to_group[:, group]
        saved = other + other.T - own[:, None] - own[None, :] - 2 * pairs
        saved[group[:, None] == group[None, :]] = 0
        a, b = np.unravel_index(saved.argmax(), saved.shape)
        if saved[a, b] <= 0:
            return group
        group[a], group[b] = group[b], group[a]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--parts', default='8,64')
    parser.add_argument('--starts', type=int, default=300)
    arguments = parser.parse_args()
    pairs = pairs_between(arguments.folder)
    random = np.random.default_rng(0)
    for parts in map(int, arguments.parts.split(',')):
        groups = np.arange(len(pairs)) * parts // len(pairs)
        best = min(cut(pairs, improve(pairs, random.permutation(groups), parts)) for _ in range(arguments.starts))
        print(f'{parts:4} parts of whole classes: {best:,} pairs cut')


if __name__ == '__main__':
    main()
