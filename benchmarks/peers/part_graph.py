# SPDX-License-Identifier: Apache-2.0
"""A partition directory of strata-partition as arrays: parts lie one after another, so global ids are rows of the whole."""
import json
import pathlib
from dataclasses import dataclass

import numpy as np


@dataclass
class PartGraph:
    indptr: np.ndarray     # [nodes + 1] i64, of in-neighbors
    indices: np.ndarray    # [edges] i64
    features: np.ndarray   # [nodes, cols] f32
    labels: np.ndarray     # [nodes] i64
    train: np.ndarray      # training nodes in the order of their original ids
    classes: int


def as_f32(dataset):
    rows = dataset[:]
    if dataset.attrs['dtype'] in ('bf16', b'bf16'):
        return (rows.astype(np.uint32) << 16).view(np.float32)
    return rows.astype(np.float32, copy=False)


def read(folder):
    import h5py
    folder = pathlib.Path(folder)
    manifest = json.loads((folder / 'manifest.json').read_text())
    nodes, edges, offsets = manifest['num_nodes'], manifest['num_edges'], manifest['offsets']
    graph = PartGraph(indptr=np.zeros(nodes + 1, np.int64), indices=np.empty(edges, np.int64),
                      features=np.empty((nodes, manifest['features']['cols']), np.float32), labels=np.empty(nodes, np.int64),
                      train=np.empty(manifest['splits']['train'], np.int64), classes=manifest['labels']['classes'])
    first_edge = 0
    for part, description in enumerate(manifest['parts']):
        first, last = offsets[part], offsets[part + 1]
        with h5py.File(folder / description['file']) as file:
            structure, data = file['/edges/node__to__node'], file['/nodes/node']
            graph.indptr[first + 1:last + 1] = structure['indptr'][1:] + first_edge
            graph.indices[first_edge:first_edge + description['edges']] = structure['indices'][:]
            graph.features[first:last] = as_f32(data['feat'])
            graph.labels[first:last] = data['label'][:]
            graph.train[data['split/train/rank'][:]] = data['split/train/row'][:] + first
        first_edge += description['edges']
    return graph
