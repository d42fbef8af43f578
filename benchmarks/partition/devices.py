#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long strata-partition cuts on the CPU and on a GPU, by turns, as a table.

    devices.py [SPEC...] [--parts 64] [--threads 0] [--runs 1] [--quality default]

Without SPECs: a planted graph and an R-MAT graph. Fails if the parts differ. Needs strata-partition (STRATA_BIN, or build/cuda/bin).
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import cuts

GRAPHS = ['synthetic:kind=sbm,nodes=1000000,edges=15000000,classes=512,features=1',
          'synthetic:kind=rmat,nodes=1000000,edges=15000000,features=1']


def build(spec, device, args):
    """Seconds of the assignment, its phases as logged, and the id of the parts."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / 'parts'
        command = [cuts.program(), 'build', '--input', spec, '--parts', args.parts, '--method', 'multilevel', '--device', device,
                   '--threads', args.threads, '--quality', args.quality, '--log-level', 'debug', '--output', output]
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        assign = re.search(r'^assign\s+(\S+(?: \S+)?)\s{2,}', done.stdout, re.MULTILINE)
        phases = dict.fromkeys(['clusters', 'contracted', 'partitioned', 'refined'], 0.0)
        for what, time in re.findall(r'(clusters|contracted|partitioned|refined)\b.* in (\S+ \S+) \(', done.stderr + done.stdout):
            phases[what] += cuts.seconds_of(time)
        return cuts.seconds_of(assign.group(1)), phases, json.loads((output / 'manifest.json').read_text())['build_id']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('specs', nargs='*', default=GRAPHS, metavar='SPEC')
    parser.add_argument('--parts', type=int, default=64)
    parser.add_argument('--threads', type=int, default=0)
    parser.add_argument('--runs', type=int, default=1)
    parser.add_argument('--quality', default='default')
    args = parser.parse_args()
    same = True
    for spec in args.specs:
        print(spec)
        print(f'  {"device":6} {"assign s":>9}   of which clusters, contraction, METIS with its refinement, all refinement')
        runs = {device: [] for device in ('cpu', 'cuda')}
        for _ in range(args.runs):
            for device, done in runs.items():
                done.append(build(spec, device, args))
        for device, done in runs.items():
            phases = '  '.join(f'{statistics.median(run[1][name] for run in done):8.2f}' for name in done[0][1])
            print(f'  {device:6} {statistics.median(run[0] for run in done):9.2f}   {phases}', flush=True)
        ids = {run[2] for done in runs.values() for run in done}
        print('  the same parts' if len(ids) == 1 else f'  PARTS DIFFER: {sorted(ids)}', flush=True)
        same = same and len(ids) == 1
    sys.exit(0 if same else 1)


if __name__ == '__main__':
    main()
