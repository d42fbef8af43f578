#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the loss and the scores of a run, epoch by epoch.

usage: learning_curve.py RUN CURVE.png     (needs pandas and matplotlib)
"""
import pathlib
import sys

import matplotlib
import pandas as pd


def table(run):
    """One row per epoch: the training loss and, where there was an evaluation, the scores of the splits."""
    records = pd.read_json(pathlib.Path(run) / 'metrics.jsonl', lines=True)
    loss = records[records['type'] == 'epoch'].set_index('epoch')['loss']
    evaluations = records[records['type'] == 'evaluation'].set_index('epoch')
    columns = {'loss': loss}
    for split in {'valid', 'test'} & set(evaluations):
        columns[split] = evaluations[split].dropna().map(lambda scores: scores['accuracy'])
    return pd.DataFrame(columns)


if __name__ == '__main__':
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    matplotlib.use('Agg')
    axes = table(sys.argv[1]).plot(subplots=True, xlabel='epoch')
    axes[0].figure.savefig(sys.argv[2])
