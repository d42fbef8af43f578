#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how few edges strata-partition cuts, and how long that takes, beside METIS k-way, as a table and as JSON.

    cuts.py reference --graphs DIR --cuts reference_cuts.csv [--method multilevel] [--quality strong] [--seed 0] [--json FILE]
    cuts.py compare SPEC... --parts 8,64 [--method multilevel] [--quality strong] [--seed 0] [--json FILE]

`reference` partitions every DIR/*.graph.gz with every number of parts of the CSV file and compares with its column of METIS's
best of five seeds. `compare` builds each SPEC with the method and with --method metis, by turns. Both end with geometric means of
the ratios; below 1 is better than METIS. Needs strata-partition (STRATA_BIN, or build/cuda/bin, or build/cpu/bin).
"""
import argparse
import csv
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
UNITS = {'us': 1e-6, 'ms': 1e-3, 's': 1}


def program():
    for folder in filter(None, [os.environ.get('STRATA_BIN'), REPOSITORY / 'build/cuda/bin', REPOSITORY / 'build/cpu/bin']):
        if (pathlib.Path(folder) / 'strata-partition').exists():
            return pathlib.Path(folder) / 'strata-partition'
    sys.exit('strata-partition is not built; run launch/build or set STRATA_BIN')


def seconds_of(text):
    """The seconds of "6.8 s", "1:05" and "1:02:03"."""
    if ':' in text:
        total = 0
        for field in text.split(':'):
            total = 60 * total + float(field)
        return total
    number, unit = text.split()
    return float(number) * UNITS[unit]


def build(spec, parts, method, quality, seed):
    """Cut (of undirected edges), balance of the nodes, seconds of the assignment and of CPU for all of it."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / 'parts'
        command = [program(), 'build', '--input', spec, '--parts', parts, '--method', method, '--seed', seed, '--output', output]
        command += ['--quality', quality] if quality != 'default' else []
        before, start = os.times(), time.monotonic()
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True)
        after = os.times()
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        described = json.loads(subprocess.run([program(), 'info', '--json', output], text=True, capture_output=True, check=True).stdout)
        assign = re.search(r'^assign\s+(\S+(?: \S+)?)\s{2,}', done.stdout, re.MULTILINE)
    nodes = next(c for c in described['constraints'] if c['name'] == 'nodes')
    weights = nodes['weights']
    cut = sum(part['cut_edges'] for part in described['parts'])
    return {'graph': spec, 'parts': parts, 'method': method, 'quality': quality, 'seed': seed,
            'cut': cut // 2 if described.get('undirected') else cut, 'balance': max(weights) * len(weights) / sum(weights),
            'assign_seconds': seconds_of(assign[1]), 'wall_seconds': time.monotonic() - start,
            'cpu_seconds': after.children_user - before.children_user + after.children_system - before.children_system}


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def reference(arguments):
    runs = []
    print(f'{"graph":>16} {"parts":>5} {"cut":>9} {"METIS":>9} {"ratio":>6} {"balance":>8} {"assign":>8}')
    with open(arguments.cuts) as file:
        for row in csv.DictReader(file):
            path = pathlib.Path(arguments.graphs) / f'{row["graph"]}.graph.gz'
            if not path.exists():
                continue
            ours = build(f'metis:{path}', int(row['k']), arguments.method, arguments.quality, arguments.seed)
            ours |= {'graph': row['graph'], 'metis_cut': int(row['metis_kway_best5'])}
            ours['ratio'] = ours['cut'] / ours['metis_cut']
            runs.append(ours)
            print(f'{ours["graph"]:>16} {ours["parts"]:5} {ours["cut"]:9} {ours["metis_cut"]:9} {ours["ratio"]:6.3f} '
                  f'{ours["balance"]:8.4f} {ours["assign_seconds"]:6.2f} s', flush=True)
    if not runs:
        sys.exit(f'none of the graphs of {arguments.cuts} is in {arguments.graphs}')
    for parts in sorted({run['parts'] for run in runs}):
        print(f'{parts:4} parts: {mean([run["ratio"] for run in runs if run["parts"] == parts]):.3f}')
    worst = max(runs, key=lambda run: run['ratio'])
    print(f'all: {mean([run["ratio"] for run in runs]):.4f}, worst {worst["ratio"]:.3f} ({worst["graph"]} in {worst["parts"]})')
    return runs


def compare(arguments):
    runs = []
    print(f'{"parts":>5} {"cut":>11} {"METIS":>11} {"ratio":>6} {"assign":>8} {"METIS":>8} {"ratio":>6} {"CPU":>6}  graph')
    for spec in arguments.specs:
        for parts in map(int, arguments.parts.split(',')):
            ours = build(spec, parts, arguments.method, arguments.quality, arguments.seed)
            metis = build(spec, parts, 'metis', 'default', arguments.seed)
            ours |= {'metis': metis, 'ratio': ours['cut'] / metis['cut'],
                     'time_ratio': ours['assign_seconds'] / metis['assign_seconds'],
                     'cpu_ratio': ours['cpu_seconds'] / metis['cpu_seconds']}
            runs.append(ours)
            print(f'{parts:5} {ours["cut"]:11,} {metis["cut"]:11,} {ours["ratio"]:6.3f} {ours["assign_seconds"]:6.1f} s '
                  f'{metis["assign_seconds"]:6.1f} s {ours["time_ratio"]:6.2f} {ours["cpu_ratio"]:6.2f}  {spec}', flush=True)
    print(f'all: cut {mean([run["ratio"] for run in runs]):.3f}, time {mean([run["time_ratio"] for run in runs]):.2f}, '
          f'CPU time {mean([run["cpu_ratio"] for run in runs]):.2f}')
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    against_file = commands.add_parser('reference')
    against_file.add_argument('--graphs', required=True)
    against_file.add_argument('--cuts', required=True)
    against_file.set_defaults(run=reference)
    against_metis = commands.add_parser('compare')
    against_metis.add_argument('specs', nargs='+', metavar='SPEC')
    against_metis.add_argument('--parts', default='8,64')
    against_metis.set_defaults(run=compare)
    for command in [against_file, against_metis]:
        command.add_argument('--method', default='multilevel')
        command.add_argument('--quality', default='default')
        command.add_argument('--seed', type=int, default=0)
        command.add_argument('--json')
    arguments = parser.parse_args()
    runs = arguments.run(arguments)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(runs, indent=2) + '\n')


if __name__ == '__main__':
    main()
