#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a NetworkX graph as a folder for `strata-partition build --input npy:DIR`.

usage: from_networkx.py GRAPH.graphml DIR     (in Python: save(graph, 'DIR'))

Node attributes: x (a list of numbers), y (a class), split (train, valid or test). Edge attribute: weight. names.txt has the name of
every node, in the order of their numbers.
"""
import pathlib
import sys

import networkx as nx
import numpy as np


def save(graph, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    number = {name: i for i, name in enumerate(graph)}
    (folder / 'names.txt').write_text(''.join(f'{name}\n' for name in graph))
    edges = [(number[u], number[v], weight) for u, v, weight in graph.edges(data='weight')]
    if not graph.is_directed():   # both directions, as PyG has them; a self-loop once
        edges += [(v, u, weight) for u, v, weight in edges if u != v]
    np.save(folder / 'edge_index.npy', np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T.copy())
    if edges and all(weight is not None for _, _, weight in edges):
        np.save(folder / 'edge_weight.npy', np.array([weight for _, _, weight in edges], dtype=np.float32))
    for name, dtype, missing in ('x', np.float32, None), ('y', np.int64, -1):
        values = [value for _, value in graph.nodes(data=name, default=missing)]
        if any(value is not missing for value in values):
            np.save(folder / f'{name}.npy', np.array(values, dtype=dtype))
    for split in 'train', 'valid', 'test':
        mask = np.array([value == split for _, value in graph.nodes(data='split')], dtype=bool)
        if mask.any():
            np.save(folder / f'{split}.npy', mask)


if __name__ == '__main__':
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    save(nx.read_graphml(sys.argv[1]), sys.argv[2])
