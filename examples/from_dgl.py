#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a homogeneous DGL graph as a folder for `strata-partition build --input npy:DIR`.

usage: from_dgl.py GRAPHS.bin DIR     (the first graph that dgl.save_graphs wrote; in Python: save(graph, 'DIR'))
"""
import pathlib
import sys

import numpy as np

NODE_DATA = {'x': ('feat', 'x'), 'y': ('label', 'labels', 'y'), 'train': ('train_mask',), 'valid': ('val_mask',), 'test': ('test_mask',)}
EDGE_DATA = {'edge_weight': ('weight', 'w')}


def save(graph, folder):
    if not graph.is_homogeneous:
        raise SystemExit('from_dgl: heterogeneous graphs are not supported')
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / 'edge_index.npy', np.stack([ids.cpu().numpy() for ids in graph.edges(order='eid')]))
    for names, frame in (NODE_DATA, graph.ndata), (EDGE_DATA, graph.edata):
        for name, keys in names.items():
            for key in [key for key in keys if key in frame][:1]:
                value = frame[key].cpu().numpy()
                np.save(folder / f'{name}.npy', value.astype(bool) if key.endswith('_mask') else value)


if __name__ == '__main__':
    import dgl
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    save(dgl.load_graphs(sys.argv[1])[0][0], sys.argv[2])
