#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do examples/python/dgl_tutorial.py and strata-train with examples/dgl_tutorial.toml reach the same accuracy?

    tutorial.py [--dataset facebook100] [--seeds 3] [--check] [--device auto|cpu|cuda] [--layers pyg|strata|dgl]
                [--batch-size 1024] [--epochs 10] [--json FILE]

Prints the best validation accuracy of each run, on sampled batches as the tutorial has them, and the means over seeds. With --check
the exit code is 1 if these are more than one point apart. --dataset takes single schools, too: facebook100:Bucknell39; as they have
few batches, give them a smaller --batch-size. Needs what accuracy.py needs, and the Python package with torch_geometric or DGL.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

import accuracy

TOLERANCE = 0.01
SCRIPT = accuracy.REPOSITORY / 'examples/python/dgl_tutorial.py'
CONFIG = accuracy.REPOSITORY / 'examples/dgl_tutorial.toml'


def by_script(options, layers, folder):
    chosen = ['--layers', layers] if layers else []
    lines = accuracy.run([sys.executable, SCRIPT, *options, *chosen, '--output', folder / 'model.pt']).splitlines()
    return max(float(line.split()[-1]) for line in lines if 'Validation Accuracy' in line)


def by_program(options, folder):
    output = folder / 'run'
    accuracy.run([accuracy.program_folder() / 'strata-train', '--config', CONFIG, *options, '--checkpoint-every', 0, '--output', output])
    records = map(json.loads, (output / 'metrics.jsonl').read_text().splitlines())
    scores = [record['valid']['accuracy'] for record in records if record['type'] == 'evaluation']
    shutil.rmtree(output)
    return max(scores)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--dataset', default='facebook100')
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--device', default='auto')
    parser.add_argument('--layers', help='of the script; default: its own choice')
    parser.add_argument('--batch-size', type=int, default=1024)
    parser.add_argument('--epochs', type=int, default=10)
    parser.add_argument('--json')
    arguments = parser.parse_args()
    if not accuracy.DATA.exists():
        print(f'-- skipped: 1 of 1 cases: {accuracy.DATA} is missing; set STRATA_DATA')
        return 77
    scores = {'dgl_tutorial.py': [], 'strata-train': []}
    with tempfile.TemporaryDirectory(prefix='strata-accuracy-') as name:
        folder = pathlib.Path(name)
        graph = accuracy.prepare(arguments.dataset, folder, accuracy.program_folder())
        for seed in range(arguments.seeds):
            options = ['--graph', graph, '--device', arguments.device, '--batch-size', arguments.batch_size, '--epochs', arguments.epochs,
                       '--seed', seed]
            scores['dgl_tutorial.py'].append(by_script(options, arguments.layers, folder))
            scores['strata-train'].append(by_program(options, folder))
            print(f'seed {seed}: ' + ', '.join(f'{who} {values[-1]:.4f}' for who, values in scores.items()), flush=True)
    means = {who: statistics.mean(values) for who, values in scores.items()}
    for who, values in scores.items():
        print(f'{arguments.dataset}: {who:16} {means[who]:.4f} +- {statistics.pstdev(values):.4f}')
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({'dataset': arguments.dataset, 'scores': scores}, indent=1) + '\n')
    return 1 if arguments.check and max(means.values()) - min(means.values()) > TOLERANCE else 0


if __name__ == '__main__':
    sys.exit(main())
