#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a NetworkX graph as a folder for `strata-partition build --input npy:DIR`.

usage: from_networkx.py GRAPH.graphml DIR     (in Python: strata.save(graph, 'DIR'))

Node attributes: x (a list of numbers), y (a class), split (train, valid or test). Edge attribute: weight. In Python, x=, y=, split= and
edge_weight= name others. names.txt has the name of every node, in the order of their numbers. Needs the package strata.
"""
import sys

import networkx as nx

from strata import InputError, save

if __name__ == '__main__':
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    try:
        save(nx.read_graphml(sys.argv[1]), sys.argv[2])
    except InputError as error:
        raise SystemExit(f'from_networkx: {error}') from None
