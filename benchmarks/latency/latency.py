#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Epochs on links of different latency, with three batches in flight and with as many as strata-train chooses.

    latency.py [--latencies 10,200,1000] [--ranks 2] [--graph SPEC] [-- OPTIONS OF strata-train]

Each rank is a virtual machine of this host. tests/support/slow_link.c lets every message arrive late by the given microseconds; a thread
that waits sleeps. Prints the median of the epochs after the first. Needs the built programs (STRATA_BIN, or build/cuda/bin, or
build/cpu/bin) and the target strata_slow_link.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import bin_folder  # noqa: E402

GRAPH = 'planted:parts=6,within=0.9,nodes=300000,edges=6000000,features=64,classes=16,train=60000,seed=1'
OPTIONS = ['--fanouts', '10,5', '--hidden', '64', '--batch-size', '256']


def train(arguments, latency, in_flight, folder):
    slow_link = bin_folder().parent / 'lib/libstrata_slow_link.so'
    if not slow_link.exists():
        sys.exit(f'{slow_link} is not there; run launch/build strata_slow_link')
    output = pathlib.Path(folder) / f'{latency}-{in_flight}'
    environment = dict(os.environ, LD_PRELOAD=str(slow_link), STRATA_SLOW_LINK_US=str(latency), OMPI_ALLOW_RUN_AS_ROOT='1',
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', OMPI_MCA_btl_vader_single_copy_mechanism='none')
    command = ['mpirun', '-n', arguments.ranks, '--oversubscribe', '--bind-to', 'none', '-x', 'LD_PRELOAD', '-x', 'STRATA_SLOW_LINK_US',
               bin_folder() / 'strata-train', '--graph', arguments.graph, '--device', 'cpu', '--ranks-per-machine', 1, '--replicate-graph', 'off',
               '--halo-cache', 0, '--epochs', 4, '--eval-every', 0, '--eval-fanouts', '1,1', '--output', output, '--log-level', 'warn',
               '--batches-in-flight', in_flight, *OPTIONS, *arguments.options]
    done = subprocess.run([str(word) for word in command], env=environment, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    records = [json.loads(line) for line in (output / 'metrics.jsonl').read_text().splitlines()]
    return {'round': next(r for r in records if r['type'] == 'run')['link']['round_seconds'],
            'epoch': statistics.median(r['seconds'] for r in records if r['type'] == 'epoch' and r['epoch'] > 1),
            'steps': next(r for r in records if r['type'] == 'epoch')['steps'],
            'batches': [r for r in records if r['type'] == 'traffic'][-1]['batches_in_flight']}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--latencies', default='10,200,1000', help='microseconds')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--graph', default=GRAPH)
    arguments, options = parser.parse_known_args()
    arguments.options = [option for option in options if option != '--']
    print('| late by | a round takes | 3 in flight: step | chosen: step | in flight |\n|---|---|---|---|---|')
    with tempfile.TemporaryDirectory(prefix='strata-latency-') as folder:
        for latency in arguments.latencies.split(','):
            three, chosen = (train(arguments, latency, batches, folder) for batches in (3, 'auto'))
            print(f'| {latency} us | {1e6 * chosen["round"]:.0f} us | {1e3 * three["epoch"] / three["steps"]:.1f} ms | '
                  f'{1e3 * chosen["epoch"] / chosen["steps"]:.1f} ms | {chosen["batches"]} |', flush=True)


if __name__ == '__main__':
    main()
