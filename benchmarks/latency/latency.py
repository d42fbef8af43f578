#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps on links of different latency, one batch at a time and with as many in flight as strata-train chooses.

    latency.py [--device cpu|cuda] [--latencies 10,200,1000] [--ranks 2] [--rounds 3] [--graph SPEC] [-- OPTIONS OF strata-train]

Each rank is a virtual machine of this host, and every message arrives late by the given microseconds (tests/support/slow_link.c): those of
MPI on the CPU, where a thread that waits sleeps, and with --device cuda those of NCCL, which goes through sockets. With cuda each rank has a
GPU. All cases take turns, in rounds, and every second round goes backwards. The table has the median step of a case, and the median,
smallest and largest of its ratios to the first latency with as many batches in flight in the same round. Needs the built programs
(STRATA_BIN, or build/cuda/bin, or build/cpu/bin) and the target strata_slow_link.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import Failed, bin_folder, finished  # noqa: E402

GRAPHS = {'cpu': 'planted:parts=6,within=0.9,nodes=300000,edges=6000000,features=64,classes=16,train=60000,seed=1',
          'cuda': 'planted:papers100M,nodes=4000000,parts=2,within=0.95'}
OPTIONS = {'cpu': ['--fanouts', '10,5', '--eval-fanouts', '1,1', '--hidden', '64', '--batch-size', '256'],
           'cuda': ['--fanouts', '15,10,5', '--eval-fanouts', '1,1,1', '--hidden', '256', '--batch-size', '1024', '--precision', 'tf32']}
IN_FLIGHT = {'one': ['--pipeline', 'off'], 'chosen': []}
# NCCL goes through sockets, even between GPUs of a host.
SOCKETS = dict(NCCL_P2P_DISABLE='1', NCCL_SHM_DISABLE='1', NCCL_IB_DISABLE='1', NCCL_SOCKET_IFNAME='lo')


def slow_network(device, latency):
    """The environment in which messages arrive late."""
    slow_link = bin_folder().parent / 'lib/libstrata_slow_link.so'
    if not slow_link.exists():
        sys.exit(f'{slow_link} is not there; run launch/build strata_slow_link')
    preload = dict(LD_PRELOAD=str(slow_link))
    return preload | (dict(SOCKETS, STRATA_SLOW_SOCKETS_US=latency) if device == 'cuda' else dict(STRATA_SLOW_LINK_US=latency))


def train(arguments, latency, in_flight, folder):
    output = pathlib.Path(folder) / 'run'
    added = slow_network(arguments.device, latency)
    environment = dict(os.environ, **added, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                       OMPI_MCA_btl_vader_single_copy_mechanism='none', OMPI_MCA_mpi_yield_when_idle='1')
    command = ['mpirun', '-n', arguments.ranks, '--oversubscribe', '--bind-to', 'none', *[word for name in added for word in ('-x', name)],
               bin_folder() / 'strata-train', '--graph', arguments.graph, '--device', arguments.device, '--ranks-per-machine', 1,
               '--replicate-graph', 'off', '--halo-cache', 0, '--epochs', 4, '--eval-every', 0, '--checkpoint-every', 0, '--output', output,
               '--overwrite', '--log-level', 'warn', *IN_FLIGHT[in_flight], *OPTIONS[arguments.device], *arguments.options]
    try:
        finished(command, environment)
    except Failed as failure:
        sys.exit(f'{latency} us, {in_flight} in flight: {failure}')
    records = [json.loads(line) for line in (output / 'metrics.jsonl').read_text().splitlines()]
    link = 'gpu_link' if arguments.device == 'cuda' else 'link'
    return {'round': next(r for r in records if r['type'] == 'run')[link]['round_seconds'],
            'step': statistics.median(r['seconds'] / r['steps'] for r in records if r['type'] == 'epoch' and r['epoch'] > 1),
            'batches': [r for r in records if r['type'] == 'traffic'][-1]['batches_in_flight']}


def measure(arguments, folder):
    """By case, a latency and a number of batches, its runs by round."""
    cases = [(latency, in_flight) for latency in arguments.latencies.split(',') for in_flight in IN_FLIGHT]
    runs = {case: [] for case in cases}
    for number in range(arguments.rounds):
        for case in cases if number % 2 == 0 else reversed(cases):
            runs[case].append(train(arguments, *case, folder))
            print(f'{case[0]} us, {case[1]} in flight: {1e3 * runs[case][-1]["step"]:.1f} ms', file=sys.stderr, flush=True)
    return runs


def cell(of_case, of_first):
    ratios = [run['step'] / first['step'] for run, first in zip(of_case, of_first)]
    step = 1e3 * statistics.median(run['step'] for run in of_case)
    return f'{step:.1f} ms | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--device', choices=list(GRAPHS), default='cpu')
    parser.add_argument('--latencies', default='10,200,1000', help='microseconds')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--graph')
    arguments, options = parser.parse_known_args()
    arguments.graph = arguments.graph or GRAPHS[arguments.device]
    arguments.options = [option for option in options if option != '--']
    with tempfile.TemporaryDirectory(prefix='strata-latency-') as folder:
        runs = measure(arguments, folder)
    latencies = arguments.latencies.split(',')
    print(f'| late by | a round takes | one by one: step | of {latencies[0]} us | chosen: step | of {latencies[0]} us | in flight |\n'
          '|---|---|---|---|---|---|---|')
    for latency in latencies:
        one, chosen = (cell(runs[latency, kind], runs[latencies[0], kind]) for kind in IN_FLIGHT)
        batches = sorted({run['batches'] for run in runs[latency, 'chosen']})
        round_us = 1e6 * statistics.median(run['round'] for run in runs[latency, 'chosen'])
        print(f'| {latency} us | {round_us:.0f} us | {one} | {chosen} | {", ".join(map(str, batches))} |')


if __name__ == '__main__':
    main()
