#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a PyTorch Geometric Data object as a folder for `strata-partition build --input npy:DIR`.

usage: from_pyg.py DATA.pt DIR [COLUMN]     (in Python: strata.save(data, 'DIR'))

DATA.pt is what torch.save(data, 'DATA.pt') writes, or the processed/data.pt of a dataset with one graph. COLUMN chooses a column
where masks have several. Needs the package strata.
"""
import sys

import torch

from strata import InputError, save

if __name__ == '__main__':
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    try:
        save(torch.load(sys.argv[1], weights_only=False), sys.argv[2], split=int(sys.argv[3]) if len(sys.argv) == 4 else None)
    except InputError as error:
        raise SystemExit(f'from_pyg: {error}') from None
