#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a PyTorch Geometric Data object as a folder for `strata-partition build --input npy:DIR`.

usage: from_pyg.py DATA.pt DIR      (DATA.pt as torch.save(data, 'DATA.pt') writes it; in Python: save(data, 'DIR'))
"""
import pathlib
import sys

import numpy as np
import torch


def save(data, folder, split=0):
    """`split` chooses a column where the masks have several."""
    if not hasattr(data, 'edge_index') or getattr(data, 'edge_index', None) is None:
        raise SystemExit('from_pyg: no edge_index; heterogeneous graphs are not supported, and adj_t must be converted first')
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, value):
        if value is not None:
            value = value.float() if value.dtype == torch.bfloat16 else value   # NumPy has no bfloat16
            np.save(folder / f'{name}.npy', value.detach().cpu().numpy())

    write('edge_index', data.edge_index)
    write('edge_weight', getattr(data, 'edge_weight', None))
    write('x', getattr(data, 'x', None))
    write('y', getattr(data, 'y', None))
    for name, mask in ('train', 'train_mask'), ('valid', 'val_mask'), ('test', 'test_mask'):
        value = getattr(data, mask, None)
        write(name, value[:, split].bool() if value is not None and value.dim() == 2 else value)


if __name__ == '__main__':
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    save(torch.load(sys.argv[1], weights_only=False), sys.argv[2])
