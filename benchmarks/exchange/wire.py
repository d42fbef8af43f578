#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much longer than its bytes at the rate of the wire does a step between slow hosts take?

    wire.py [--rate 1gbit] [--hosts 3] [--rounds 3] [--graph SPEC] [-- OPTIONS OF strata-train]

Makes hosts of this one that share nothing but a network of the given rate (tests/support/netns_cluster.sh: root, network namespaces, tc),
builds parts of the graph with METIS, one per host, and trains one rank on each, which keeps nothing of the others. Of each run, the median
epoch after the first counts; its bytes are those of the rank that sends or receives most. Steps of a host without a network show what
computing takes. Needs the built programs (STRATA_BIN, or build/cuda/bin, or build/cpu/bin).
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import REPOSITORY, Failed, bin_folder, finished  # noqa: E402

GRAPH = 'synthetic:kind=sbm,nodes=60000,edges=1500000,features=512,classes=12,seed=7'
OPTIONS = ['--fanouts', '10,10', '--hidden', '16', '--global-batch-size', '1500', '--epochs', '4', '--eval-every', '0', '--eval-fanouts', '1,1',
           '--checkpoint-every', '0', '--device', 'cpu', '--replicate-graph', 'off', '--halo-cache', '0', '--log-level', 'warn', '--overwrite']
SUFFIXES = {'gbit': 1e9 / 8, 'mbit': 1e6 / 8}  # as tc names rates


def bytes_per_second(rate):
    for suffix, factor in SUFFIXES.items():
        if rate.endswith(suffix):
            return float(rate[:-len(suffix)]) * factor
    sys.exit(f'--rate {rate} is not a number and gbit or mbit')


def records(output, kind):
    found = [json.loads(line) for line in (output / 'metrics.jsonl').read_text().splitlines()]
    return [record for record in found if record['type'] == kind]


def most_bytes(rank):
    """The most bytes that a rank sends or receives in an epoch."""
    hops, rows = rank['neighbors']['hops'], rank['features']
    sent = sum(hop['request_bytes'] + hop['answer_bytes'] for hop in hops) + rows['request_bytes'] + rows['row_bytes']
    return max(sent, sum(hop['received_bytes'] for hop in hops) + rows['received_bytes'])


def train(arguments, rate, parts, folder):
    """Seconds and bytes of a step."""
    output = folder / 'run'
    command = ['sh', REPOSITORY / 'tests/support/netns_cluster.sh', arguments.hosts, 1, bin_folder() / 'strata-train', '--graph', parts,
               '--output', output, *OPTIONS, *arguments.options]
    environment = dict(os.environ, CLUSTER_RATE=rate) if rate else dict(os.environ)
    finished(command, environment, 600)
    epochs, traffic = records(output, 'epoch')[1:], records(output, 'traffic')[1:]
    return {'step': statistics.median(epoch['seconds'] / epoch['steps'] for epoch in epochs),
            'bytes': statistics.median(max(map(most_bytes, record['ranks'])) / record['steps'] for record in traffic),
            'in_flight': traffic[-1]['batches_in_flight']}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rate', default='1gbit')
    parser.add_argument('--hosts', type=int, default=3)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--graph', default=GRAPH)
    arguments, options = parser.parse_known_args()
    arguments.options = [option for option in options if option != '--']
    rate = bytes_per_second(arguments.rate)
    with tempfile.TemporaryDirectory(prefix='strata-wire-') as scratch:
        folder = pathlib.Path(scratch)
        finished([bin_folder() / 'strata-partition', 'build', '--input', arguments.graph, '--parts', arguments.hosts, '--output', folder / 'parts'])
        runs, unlimited = [], []
        for _ in range(arguments.rounds):
            runs.append(train(arguments, arguments.rate, folder / 'parts', folder))
            unlimited.append(train(arguments, '', folder / 'parts', folder))
    print(f'| network | step | bytes of a step | at {arguments.rate} | step divided by that | batches in flight |\n|---|---|---|---|---|---|')
    for name, of in ((arguments.rate, runs), ('unlimited', unlimited)):
        step, sent = (statistics.median(run[key] for run in of) for key in ('step', 'bytes'))
        ratios = [run['step'] * rate / run['bytes'] for run in of]
        print(f'| {name} | {1e3 * step:.1f} ms | {sent / 1e6:.2f} MB | {1e3 * sent / rate:.1f} ms | {statistics.median(ratios):.2f} '
              f'({min(ratios):.2f} to {max(ratios):.2f}) | {of[-1]["in_flight"]} |')


if __name__ == '__main__':
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
