#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a homogeneous DGL graph as a folder for `strata-partition build --input npy:DIR`.

usage: from_dgl.py GRAPHS.bin DIR     (the first graph that dgl.save_graphs wrote; in Python: strata.save(graph, 'DIR'))

Features are ndata 'feat' or 'x', labels 'label', 'labels' or 'y', weights edata 'weight' or 'w'; in Python, x=, y= and edge_weight=
name others. Needs the package strata.
"""
import sys

from strata import InputError, save

if __name__ == '__main__':
    import dgl
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    try:
        save(dgl.load_graphs(sys.argv[1])[0][0], sys.argv[2])
    except InputError as error:
        raise SystemExit(f'from_dgl: {error}') from None
