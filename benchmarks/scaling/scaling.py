#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What strata-train --plan-only expects of clusters, and how that compares with steps that are measured.

    scaling.py table [--write]       the table of docs/scaling.md: 8 to 256 machines of 8 GPUs, two graphs; some minutes
    scaling.py validate              steps of 2 and 3 virtual machines of this host, on its CPUs, beside what a run on one machine
                                     and the measured link let expect; some minutes

--write puts the table into docs/scaling.md. Needs the built programs (STRATA_BIN, or build/cuda/bin, or build/cpu/bin).
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import REPOSITORY, bin_folder  # noqa: E402

PAGE = REPOSITORY / 'docs/scaling.md'
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                   OMPI_MCA_btl_vader_single_copy_mechanism='none')

# The training nodes are more than the originals have, so that 2,048 ranks have whole batches.
GRAPHS = {'papers100M': 'planted:papers100M,parts=256,within=0.8,train=20000000',
          '10 billion edges': 'planted:nodes=400000000,edges=10000000000,features=128,classes=172,train=20000000,parts=256,within=0.8'}
MACHINES = [1, 8, 16, 64, 256]
LINKS = {'one per GPU': '', 'one per machine': ',links=1'}
# A step and the sampling of a batch on one H200, TF32: measured by benchmarks/exchange.
CLUSTER = 'gpus=8,link=400Gbit/s,latency=10us,gpu-memory=140GiB,host-memory=2TiB,compute=0.63ms,sample=0.19ms'
GPU_OPTIONS = ['--fanouts', '15,10,5', '--hidden', '256', '--batch-size', '1024', '--precision', 'tf32', '--neighbor-exchange', 'nccl',
               '--replicate-graph', 'off', '--halo-cache', '0']

VALIDATED = 'planted:parts=6,within={within},nodes=300000,edges=6000000,features={features},classes=16,train=120000,seed=1'
CASES = [{'within': 0.9, 'features': 64, 'options': ['--fanouts', '10,5', '--hidden', '64', '--batch-size', '512']},
         {'within': 0.5, 'features': 64, 'options': ['--fanouts', '10,5', '--hidden', '64', '--batch-size', '512']},
         {'within': 0.5, 'features': 256, 'options': ['--fanouts', '10,5', '--hidden', '64', '--batch-size', '512']},
         {'within': 0.9, 'features': 64, 'options': ['--fanouts', '10,5,5', '--hidden', '128', '--batch-size', '256']}]
NOTHING_KEPT = ['--replicate-graph', 'off', '--halo-cache', '0']


def run(command):
    print('+', ' '.join(map(str, command)), file=sys.stderr)
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, env=ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def plan(graph, cluster, options):
    return json.loads(run([bin_folder() / 'strata-train', '--graph', graph, '--plan-only', 'json', '--cluster', cluster, *options]))


def sent_bytes(found):
    return sum(hop['bytes'] for hop in found['hops']) + found['rows']['bytes']


def scaling_table():
    lines = ['| graph | links | machines | sent per rank and step | rows remote | step | limited by | seeds/s | efficiency |',
             '|---|---|---|---|---|---|---|---|---|']
    for name, graph in GRAPHS.items():
        alone = None
        for links, key in LINKS.items():
            for machines in MACHINES:
                if machines == 1 and key:
                    continue
                found = plan(graph, f'machines={machines},{CLUSTER}{key}', GPU_OPTIONS)
                alone = alone or found['step_seconds']
                sent = sent_bytes(found)
                remote = found['rows']['remote'] / found['rows']['nodes']
                seeds = 1024 * found['ranks'] / found['step_seconds']
                lines.append(f'| {name} | {links if machines > 1 else "-"} | {machines} | {sent / 1e6:.0f} MB | {100 * remote:.0f} % | '
                             f'{1e3 * found["step_seconds"]:.2f} ms | {found["limit"] if machines > 1 else "compute"} | {seeds / 1e6:,.1f} M | '
                             f'{100 * alone / found["step_seconds"]:.0f} % |')
                print(lines[-1], file=sys.stderr)
    return lines


def records(output, kind):
    found = [json.loads(line) for line in (output / 'metrics.jsonl').read_text().splitlines()]
    return [record for record in found if record['type'] == kind]


def train(graph, ranks, options, folder):
    """The run's record, and seconds of a step: the median of its epochs after the first."""
    output = pathlib.Path(folder) / 'run'
    shutil.rmtree(output, ignore_errors=True)
    run(['mpirun', '-n', ranks, '--oversubscribe', '--bind-to', 'none', bin_folder() / 'strata-train', '--graph', graph, '--device', 'cpu',
         '--epochs', 4, '--eval-every', 0, '--eval-fanouts', '1,1,1' if options[1].count(',') == 2 else '1,1', '--output', output,
         '--log-level', 'warn', *options])
    epochs = records(output, 'epoch')[1:]
    return records(output, 'run')[0], statistics.median(epoch['seconds'] / epoch['steps'] for epoch in epochs)


def validation_table(folder):
    lines = ['| graph, model | machines | sent per rank and step | measured | expected | error |', '|---|---|---|---|---|---|']
    alone = pathlib.Path(folder) / 'alone'
    for case in CASES:
        graph = VALIDATED.format(**case)
        for machines in (2, 3):
            # As many ranks as the cluster has, on one machine, so that they share cores as its ranks do.
            train(graph, machines, [*case['options'], '--pipeline', 'off', '--loader-threads', 1], folder)
            shutil.rmtree(alone, ignore_errors=True)
            (pathlib.Path(folder) / 'run').rename(alone)
            setup, measured = train(graph, machines, [*case['options'], '--ranks-per-machine', 1, '--loader-threads', 1, *NOTHING_KEPT], folder)
            link = setup['link']
            cluster = (f'machines={machines},ranks=1,link={link["bytes_per_second"] / 1e6:.3f}MB/s,latency={1e6 * link["round_seconds"]:.3f}us,'
                       f'measured={alone}')
            found = plan(graph, cluster, [*case['options'], *NOTHING_KEPT])
            sent = sent_bytes(found)
            lines.append(f'| {100 * case["within"]:.0f} % within, {case["features"]} features, {" ".join(case["options"][1::2])} | {machines} | '
                         f'{sent / 1e6:.2f} MB | {1e3 * measured:.1f} ms | {1e3 * found["step_seconds"]:.1f} ms | '
                         f'{100 * (found["step_seconds"] / measured - 1):+.0f} % |')
            print(lines[-1], file=sys.stderr)
    return lines


def write_between(mark, lines):
    text = PAGE.read_text()
    begin, end = f'<!-- {mark} -->\n', f'<!-- end of {mark} -->\n'
    head, rest = text.split(begin, 1)
    PAGE.write_text(head + begin + '\n'.join(lines) + '\n' + end + rest.split(end, 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=['table', 'validate'])
    parser.add_argument('--write', action='store_true', help='of table')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='strata-scaling-') as folder:
        lines = scaling_table() if arguments.what == 'table' else validation_table(folder)
    print('\n'.join(lines))
    if arguments.write and arguments.what == 'table':
        write_between(arguments.what, lines)


if __name__ == '__main__':
    main()
