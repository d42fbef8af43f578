#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what strata-plan expects of clusters with steps that are measured.

    scaling.py table [--write]       the table of README.md: 8 to 256 machines of 8 GPUs, two graphs; some minutes
    scaling.py validate [--gpus N]   steps of 2 and 3 virtual machines of this host, on its CPUs or GPUs, beside what runs on one
                                     machine and the measured link let expect; some minutes

--write puts the table into README.md. Needs the built programs (STRATA_BIN, or build/cuda/bin, or build/cpu/bin).
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import bin_folder  # noqa: E402

PAGE = pathlib.Path(__file__).with_name('README.md')
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                   OMPI_MCA_btl_vader_single_copy_mechanism='none')

# The training nodes are more than the originals have, so that 2,048 ranks have whole batches.
GRAPHS = {'papers100M': 'planted:papers100M,parts=256,within=0.8,train=20000000',
          '10 billion edges': 'planted:nodes=400000000,edges=10000000000,features=128,classes=172,train=20000000,parts=256,within=0.8'}
MACHINES = [1, 8, 16, 64, 256]
LINKS = {'one per GPU': '', 'one per machine': ',links=1'}
# A step and the sampling of a batch on one H200, TF32: measured by benchmarks/exchange.
CLUSTER = 'gpus=8,link=400Gbit/s,latency=10us,gpu-memory=140GiB,host-memory=2TiB,compute=0.63ms,sample=0.19ms'
GPU_OPTIONS = ['--fanouts', '15,10,5', '--hidden', '256', '--batch-size', '1024', '--precision', 'tf32', '--exchange', 'nccl',
               '--replicate-graph', 'off', '--halo-cache', '0']

VALIDATED = 'planted:parts=6,within={within},nodes=300000,edges=6000000,features={features},classes=16,train=60000,seed=1'
SMALL = ['--fanouts', '10,5', '--hidden', '64', '--batch-size', '512']
CASES = [{'within': 0.9, 'features': 64, 'options': SMALL},
         {'within': 0.5, 'features': 64, 'options': SMALL},
         {'within': 0.5, 'features': 256, 'options': SMALL},
         {'within': 0.9, 'features': 64, 'options': ['--fanouts', '10,5,5', '--hidden', '128', '--batch-size', '256']}]
VALIDATED_ON_GPUS = 'planted:papers100M,nodes={nodes},train=600000,parts=4,within={within}'
LARGE = ['--fanouts', '15,10,5', '--hidden', '256', '--batch-size', '1024', '--precision', 'tf32']
GPU_CASES = [{'within': 0.95, 'options': LARGE}, {'within': 0.5, 'options': LARGE},
             {'within': 0.5, 'options': [*LARGE, '--row-exchange-precision', 'bf16']},
             {'within': 0.8, 'options': ['--fanouts', '10,10', *LARGE[2:]]}]
NOTHING_KEPT = ['--replicate-graph', 'off', '--halo-cache', '0']


def run(command):
    print('+', ' '.join(map(str, command)), file=sys.stderr)
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, env=ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def plan(graph, cluster, options):
    return json.loads(run([bin_folder() / 'strata-plan', '--graph', graph, '--json', '--cluster', cluster, *options]))


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


class Validation:
    """Runs on the virtual machines of this host, and what the model expects of them."""

    def __init__(self, arguments, folder):
        self.on_gpus = arguments.gpus > 0
        self.folder = pathlib.Path(folder)
        self.repetitions = arguments.repetitions
        # (machines, ranks of each)
        self.shapes = {0: [(2, 1), (3, 1)], 2: [(2, 1)]}.get(arguments.gpus, [(2, arguments.gpus // 2), (arguments.gpus, 1)])
        self.cases = [case for case in (GPU_CASES if self.on_gpus else CASES)]
        self.graph = (VALIDATED_ON_GPUS if self.on_gpus else VALIDATED).replace('{nodes}', str(arguments.nodes))

    def train(self, graph, ranks, options, output):
        """The record of the run, and seconds of a step: of its fastest epoch, because others on the host only make it slower."""
        fanouts = options[options.index('--fanouts') + 1]
        run(['mpirun', '-n', ranks, '--oversubscribe', '--bind-to', 'none', bin_folder() / 'strata-train', '--graph', graph,
             '--device', 'cuda' if self.on_gpus else 'cpu', '--epochs', 4, '--eval-every', 0, '--checkpoint-every', 0,
             '--eval-fanouts', ','.join('1' for _ in fanouts.split(',')), '--output', output, '--overwrite', '--log-level', 'warn', *options])
        return records(output, 'run')[-1], min(epoch['seconds'] / epoch['steps'] for epoch in records(output, 'epoch')[1:])

    def alone(self, graph, ranks, options, output):
        """Trains with as many ranks as the cluster has, on one machine, so that they share cores as its ranks do. GPUs gather rows first, as on
        several machines, if not all of them are copied to every GPU."""
        how = ['--placement', 'features=99/1/0'] if self.on_gpus else ['--pipeline', 'off']
        return self.train(graph, ranks, [*without_rows_in_bf16(options), *how], output)[1]

    def distributed(self, graph, shape, options, output):
        machines, ranks = shape
        return self.train(graph, machines * ranks, [*options, '--ranks-per-machine', ranks, *NOTHING_KEPT], output)

    def expected(self, graph, shape, options, link, alone):
        machines, ranks = shape
        cluster = (f'machines={machines},{"gpus" if self.on_gpus else "ranks"}={ranks},link={link["bytes_per_second"] / 1e6:.3f}MB/s,'
                   f'latency={1e6 * link["round_seconds"]:.3f}us,measured={alone}')
        return plan(graph, cluster, [*options, *NOTHING_KEPT])

    def row(self, case, shape):
        """Runs take turns. Of each kind the fastest counts."""
        graph, options = self.graph.format(**case), case['options']
        machines, ranks = shape
        best, steps = None, []
        for repetition in range(self.repetitions):
            folder = self.folder / f'alone{repetition}'
            alone = self.alone(graph, machines * ranks, options, folder)
            best = min(best or (alone, folder), (alone, folder))
            steps.append(self.distributed(graph, shape, options, self.folder / 'distributed'))
        measured = min(step for _, step in steps)
        links = [setup['gpu_link'] or setup['link'] for setup, _ in steps]
        link = {'bytes_per_second': max(link['bytes_per_second'] for link in links), 'round_seconds': min(link['round_seconds'] for link in links)}
        found = self.expected(graph, shape, options, link, best[1])
        what = ', '.join([f'{100 * case["within"]:.0f} % within', *([f'{case["features"]} features'] if 'features' in case else []),
                          ' '.join(options[1::2])])
        return (f'| {what} | {machines} of {ranks} | {sent_bytes(found) / 1e6:.2f} MB | {1e3 * best[0]:.2f} ms | {1e3 * measured:.2f} ms | '
                f'{1e3 * max(step for _, step in steps):.2f} ms | {1e3 * found["step_seconds"]:.2f} ms, {found["limit"]} | '
                f'{100 * (found["step_seconds"] / measured - 1):+.0f} % |')

    def table(self):
        lines = ['| graph, model | machines | sent per rank and step | one machine | measured | slowest run | expected | error |',
                 '|---|---|---|---|---|---|---|---|']
        for case in self.cases:
            for shape in self.shapes:
                lines.append(self.row(case, shape))
                print(lines[-1], file=sys.stderr, flush=True)
        return lines


def without_rows_in_bf16(options):
    """One machine has no rows to send."""
    at = options.index('--row-exchange-precision') if '--row-exchange-precision' in options else len(options)
    return options[:at] + options[at + 2:]


def write_between(mark, lines):
    text = PAGE.read_text()
    begin, end = f'<!-- {mark} -->\n', f'<!-- end of {mark} -->\n'
    head, rest = text.split(begin, 1)
    PAGE.write_text(head + begin + '\n'.join(lines) + '\n' + end + rest.split(end, 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=['table', 'validate'])
    parser.add_argument('--write', action='store_true', help='of table')
    parser.add_argument('--gpus', type=int, default=0, help='of validate: measure on so many GPUs of this host instead of its CPUs')
    parser.add_argument('--nodes', type=int, default=8000000, help='of validate on GPUs: nodes of the graph')
    parser.add_argument('--repetitions', type=int, default=2, help='of validate')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='strata-scaling-') as folder:
        lines = scaling_table() if arguments.what == 'table' else Validation(arguments, folder).table()
    print('\n'.join(lines))
    if arguments.write and arguments.what == 'table':
        write_between(arguments.what, lines)


if __name__ == '__main__':
    main()
