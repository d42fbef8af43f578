#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which of Open MPI's settings matter to a run on several machines: a step with each of them, on virtual machines of this host.

    settings.py [--ranks 2] [--repetitions 3] [--graph SPEC] [--only WORD] [-- OPTIONS OF strata-train]

Every setting is tried once per repetition, in turn, so that what else the host does spreads over all of them; a line per setting tells the
median step, its spread, and what a round and a byte between ranks take. On a cluster, give mpirun's words with --mpirun '...' (hosts,
btl_tcp_if_include), and the real machines with --ranks-per-machine 0. Needs the built programs (STRATA_BIN, or build/cuda/bin, or
build/cpu/bin).
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import bin_folder  # noqa: E402

GRAPH = 'planted:parts=6,within=0.5,nodes=300000,edges=6000000,features=64,classes=16,train=60000,seed=1'
OPTIONS = ['--fanouts', '10,5', '--hidden', '64', '--batch-size', '256']
PLAIN = {'mpi_yield_when_idle': '1', 'btl_vader_single_copy_mechanism': 'none'}

# Name: Open MPI's parameters beside PLAIN, and words of mpirun.
SETTINGS = {'as launch/mpi-env sets it': ({}, ['--bind-to', 'none']),
            'mpi_yield_when_idle 0': ({'mpi_yield_when_idle': '0'}, ['--bind-to', 'none']),
            'bound to cores': ({}, ['--bind-to', 'core']),
            'single copy by cma': ({'btl_vader_single_copy_mechanism': 'cma'}, ['--bind-to', 'none']),
            'btl tcp,self': ({'btl': 'tcp,self'}, ['--bind-to', 'none']),
            'btl tcp,self, yield 0': ({'btl': 'tcp,self', 'mpi_yield_when_idle': '0'}, ['--bind-to', 'none']),
            'eager limit 64 KiB': ({'btl_vader_eager_limit': '65536'}, ['--bind-to', 'none']),
            'coll ^tuned': ({'coll': '^tuned'}, ['--bind-to', 'none'])}


def train(arguments, name, folder):
    """Seconds of a step, and the link; None where mpirun refuses the setting."""
    parameters, words = SETTINGS[name]
    output = pathlib.Path(folder) / 'run'
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    for parameter, value in {**PLAIN, **parameters}.items():
        environment[f'OMPI_MCA_{parameter}'] = value
    command = ['mpirun', '-n', arguments.ranks, '--oversubscribe', *words, *shlex.split(arguments.mpirun), bin_folder() / 'strata-train',
               '--graph', arguments.graph, '--device', 'cpu', '--ranks-per-machine', arguments.ranks_per_machine, '--replicate-graph', 'off',
               '--halo-cache', 0, '--epochs', 3, '--eval-every', 0, '--eval-fanouts', '1,1', '--output', output, '--overwrite', '--log-level',
               'warn', *OPTIONS, *arguments.options]
    done = subprocess.run([str(word) for word in command], env=environment, text=True, capture_output=True)
    if done.returncode != 0:
        print(f'{name}: {(done.stdout + done.stderr).strip()[-300:]}', file=sys.stderr)
        return None
    records = [json.loads(line) for line in (output / 'metrics.jsonl').read_text().splitlines()]
    epochs = [r['seconds'] / r['steps'] for r in records if r['type'] == 'epoch' and r['epoch'] > 1]
    return {'step': statistics.median(epochs), **next(r for r in records if r['type'] == 'run')['link']}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--ranks-per-machine', type=int, default=1)
    parser.add_argument('--repetitions', type=int, default=3)
    parser.add_argument('--graph', default=GRAPH)
    parser.add_argument('--mpirun', default='', help='further words of mpirun')
    parser.add_argument('--only', default='', help='settings whose name contains this')
    arguments, options = parser.parse_known_args()
    arguments.options = [option for option in options if option != '--']
    names = [name for name in SETTINGS if arguments.only in name]
    found = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix='strata-mpi-') as folder:
        for _ in range(arguments.repetitions):
            for name in names:
                result = train(arguments, name, folder)
                if result is not None:
                    found[name].append(result)
    print('| setting | step | from run to run | a round | bytes between ranks |\n|---|---|---|---|---|')
    for name, results in found.items():
        if not results:
            print(f'| {name} | does not start | | | |')
            continue
        steps = [result['step'] for result in results]
        rounds, rates = ([result[key] for result in results] for key in ('round_seconds', 'bytes_per_second'))
        print(f'| {name} | {1e3 * statistics.median(steps):.1f} ms | {1e3 * min(steps):.1f} to {1e3 * max(steps):.1f} | '
              f'{1e6 * statistics.median(rounds):.0f} us | {statistics.median(rates) / 1e9:.2f} GB/s |')


if __name__ == '__main__':
    main()
