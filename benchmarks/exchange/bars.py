#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is training on several machines as fast as it shall be? All that this host can show, in one go, as a table and as JSON.

    bars.py [--only CASE[,CASE...]] [--runs 3] [--small] [--json FILE]

Of each case, runs on several virtual machines take turns with runs that it is compared with, mostly on one machine of as many ranks;
of each kind the median counts. A case that needs more GPUs than there are is named as not measurable. --small takes tiny graphs, and
CPUs where there are no GPUs: it shows that the cases run, and nothing about their bars. Needs the built programs (STRATA_BIN, or
build/cuda/bin, or build/cpu/bin), for some cases facebook100 (STRATA_DATA, or ../shared/data), and for one root.
"""
import argparse
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import exchange  # noqa: E402
import wire  # noqa: E402
from programs import REPOSITORY, Failed, bin_folder  # noqa: E402

DATA = pathlib.Path(os.environ.get('STRATA_DATA', REPOSITORY.parent / 'shared' / 'data'))
FACEBOOK = 'facebook100'
SMALL_SCHOOL = 'Reed98'
CLUSTERS = 16

SMALL_PLANTED = 'planted:parts={machines},within=0.95,nodes=4000,edges=40000,features=16,classes=4,train=400,seed=1'
SMALL_SBM = 'synthetic:kind=sbm,nodes=2000,edges=20000,features=16,classes=4,train=400,seed=1'
# The measured graph, and its tiny counterpart.
GRAPHS = {'planted': ('planted:papers100M,nodes=20000000,parts={machines},within=0.95', SMALL_PLANTED),
          'papers100M': ('planted:papers100M,parts={machines},within=0.95', SMALL_PLANTED),
          'products': ('synthetic:products,nodes=1000000', SMALL_SBM),
          'weighted': ('synthetic:kind=sbm,nodes=1000000,edges=30000000,features=128,classes=47,seed=1,weights=uniform',
                       SMALL_SBM + ',weights=uniform')}
SMALL_WIRE = 'synthetic:kind=sbm,nodes=3000,edges=60000,features=64,classes=4,seed=7'


class NotMeasurable(Exception):
    """Why a case cannot be measured on this host."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A training job on several machines. Parts are made by `method`; of planted graphs every machine generates its own."""
    graph: str
    machines: int
    ranks: int   # of a machine
    kept: str = 'none'
    cache: str = '0'
    method: str = ''
    fanouts: str = '15,10,5'
    precision: str = 'tf32'
    options: tuple = ()
    epochs: int = 6


@dataclasses.dataclass(frozen=True)
class Found:
    """A measurement, and what it is compared with."""
    measured: float
    reference: float
    unit: str = 'ms per step'


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    what: str
    bar: float   # of what is measured, in units of what it is compared with
    measure: typing.Callable[['Host', 'Case'], Found]
    gpus: int = 0


class Host:
    """Runs jobs on this host, in a folder for parts."""

    def __init__(self, arguments, folder):
        self.small, self.runs, self.folder = arguments.small, arguments.runs, pathlib.Path(folder)
        self.programs, self.gpus = bin_folder(), gpu_names()
        self.steps_on_one_machine = {}

    def device(self, case):
        return 'cuda' if case.gpus and case.gpus <= len(self.gpus) else 'cpu'

    def facebook(self):
        """The input, which is made once."""
        if not (DATA / FACEBOOK).exists():
            raise NotMeasurable(f'{DATA / FACEBOOK} is missing; set STRATA_DATA')
        folder = self.folder / FACEBOOK
        if not folder.exists():
            exchange.run([sys.executable, DATA / 'to_graphbolt.py', FACEBOOK, folder, *(['--schools', SMALL_SCHOOL] if self.small else [])])
        return f'graphbolt:{folder}'

    def parts(self, graph, machines, method='', *options):
        """The graph for strata-train: parts, which are made once, or a graph that needs none."""
        spec = self.facebook() if graph == FACEBOOK else GRAPHS[graph][self.small].format(machines=machines)
        if spec.startswith(exchange.PLANTED):
            return spec
        output = self.folder / '-'.join([graph, method or 'auto', str(machines), *options])
        if not output.exists():
            how = ['--method', method] if method else []
            exchange.run([self.programs / 'strata-partition', 'build', '--input', spec, '--parts', machines, '--output', output, *how, *options])
        return output

    def train(self, case, job, kept, parts=None):
        """The records of a run, by type."""
        sizes = ['--hidden', 16, '--batch-size', 50] if self.small else ['--hidden', 256, '--batch-size', 1024]
        fanouts = ','.join('3' for _ in job.fanouts.split(',')) if self.small else job.fanouts
        device = self.device(case)
        precision = [] if job.precision == 'tf32' and device == 'cpu' else ['--precision', job.precision]
        arguments = argparse.Namespace(machines=job.machines, ranks=job.ranks, cache=job.cache, epochs=3 if self.small else job.epochs,
                                       options=['--device', device, '--fanouts', fanouts, *sizes, *precision, *job.options])
        return exchange.train(parts or self.parts(job.graph, job.machines, job.method), arguments, kept, self.folder)

    def turns(self, case, job):
        """The records of runs on several machines, and steps of runs on one, which serve all jobs that differ in nothing else."""
        key = dataclasses.replace(job, kept='', cache=''), self.device(case)
        known, alone, several = self.steps_on_one_machine.get(key), [], []
        for _ in range(self.runs):
            several.append(self.train(case, job, job.kept))
            if known is None:
                alone.append(exchange.step_ms(self.train(case, job, exchange.ONE_MACHINE)))
        return several, self.steps_on_one_machine.setdefault(key, alone)


def gpu_names():
    if shutil.which('nvidia-smi') is None:
        return []
    listed = subprocess.run(['nvidia-smi', '--query-gpu=name', '--format=csv,noheader'], text=True, capture_output=True)
    return listed.stdout.split('\n')[:-1] if listed.returncode == 0 else []


@contextlib.contextmanager
def on_cores(count):
    """Lets programs that are started meanwhile have this many cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def against_one_machine(job, host, case):
    several, alone = host.turns(case, job)
    return Found(statistics.median(map(exchange.step_ms, several)), statistics.median(alone))


def on_two_cores(job, host, case):
    with on_cores(2):
        return against_one_machine(job, host, case)


def against_bytes(job, host, case):
    """The longer of a step on one machine and of the time that a rank's bytes take at the measured rate of the exchange."""
    several, alone = host.turns(case, job)
    transfers = []
    for records in several:
        setup, sent = records['run'], records['exchange']
        bytes_sent = sent['features']['bytes'] + sum(hop['bytes'] for hop in sent['neighbors']['hops'])
        steps = setup['steps_per_epoch'] * records['final']['epochs']
        link = setup['gpu_link'] or setup['link']
        transfers.append(1e3 * bytes_sent / setup['ranks'] / steps / link['bytes_per_second'])
    return Found(statistics.median(map(exchange.step_ms, several)), max(statistics.median(alone), statistics.median(transfers)))


def slowest_against_fastest(job, runs, host, case):
    steps = [exchange.step_ms(host.train(case, job, job.kept)) for _ in range(2 if host.small else runs)]
    return Found(max(steps), min(steps))


def rows_of_clusters(job, host, case):
    """Input rows do not depend on time, and take one epoch."""
    rows = []
    for options in (['--clusters', str(CLUSTERS)], []):
        parts = host.parts(job.graph, job.machines, job.method, *options)
        rows.append(host.train(case, job, exchange.ONE_MACHINE, parts)['epoch']['input_rows'])
    return Found(*rows, 'rows per epoch')


def against_slow_network(hosts, rate, host, case):
    needed = ['ip', 'tc', 'nsenter', 'unshare']
    if os.geteuid() != 0 or not all(map(shutil.which, needed)):
        raise NotMeasurable(f'it needs root, and {", ".join(needed)}')
    spec, parts = SMALL_WIRE if host.small else wire.GRAPH, host.folder / 'wire'
    exchange.run([host.programs / 'strata-partition', 'build', '--input', spec, '--parts', hosts, '--output', parts])
    arguments = argparse.Namespace(hosts=hosts, options=[])
    runs = [wire.train(arguments, rate, parts, host.folder) for _ in range(host.runs)]
    bytes_of_step = statistics.median(run['bytes'] for run in runs)
    return Found(1e3 * statistics.median(run['step'] for run in runs), 1e3 * bytes_of_step / wire.bytes_per_second(rate))


def cases():
    two_of_two, pair = Job('planted', 2, 2), Job('planted', 2, 1)

    def on_gpus(name, what, bar, job, measure=against_one_machine):
        return Case(name, what, bar, functools.partial(measure, job), job.machines * job.ranks)

    facebook = Job(FACEBOOK, 2, 1, method='random', fanouts='5,10,15', precision='f32', epochs=3)
    clusters = Job(FACEBOOK, 1, 4, precision='f32', epochs=1)
    return [
        on_gpus('planted', 'planted, 2 machines of 2, partitioned, no caches', 1.30, two_of_two),
        on_gpus('caches', 'the same, caches of a tenth of the free memory', 1.20, dataclasses.replace(two_of_two, kept='caches', cache='auto')),
        on_gpus('replicated', 'the same, structure replicated', 1.15, dataclasses.replace(two_of_two, kept='replicated')),
        on_gpus('four', 'planted, 4 machines of 1, partitioned', 1.40, Job('planted', 4, 1)),
        on_gpus('pair', 'planted, 2 machines of 1', 1.30, pair),
        on_gpus('papers100M', 'papers100M shape, 2 machines of 2, 30,30,30', 1.30, Job('papers100M', 2, 2, fanouts='30,30,30')),
        on_gpus('products', 'products shape in random halves, against one machine or its bytes', 1.20,
                Job('products', 2, 2, method='random'), against_bytes),
        on_gpus('spread', 'planted, 2 machines of 2, slowest of ten runs', 1.15, two_of_two,
                lambda job, host, case: slowest_against_fastest(job, 10, host, case)),
        on_gpus('gat', 'GAT, 2 machines of 1', 1.50, dataclasses.replace(pair, options=('--model', 'gat'))),
        on_gpus('bf16', 'bf16, 2 machines of 1', 1.50, dataclasses.replace(pair, precision='bf16')),
        on_gpus('weighted', 'weighted, 2 machines of 1, METIS parts', 1.50,
                Job('weighted', 2, 1, method='metis', options=('--sampler', 'weighted'))),
        on_gpus('labor', 'LABOR, 2 machines of 1', 1.50, dataclasses.replace(pair, options=('--sampler', 'labor'))),
        Case('cpu', 'CPU, two cores, facebook100 in 2 random parts, no cache', 2.0, functools.partial(on_two_cores, facebook)),
        Case('cpu-cache', 'the same with a cache', 1.15,
             functools.partial(on_two_cores, dataclasses.replace(facebook, kept='caches', cache='1GiB'))),
        Case('wire', '3 namespace hosts at 1 Gbit/s, METIS parts, against its bytes', 1.15,
             functools.partial(against_slow_network, 3, '1gbit')),
        Case('clusters', f'facebook100, 4 ranks on one machine, {CLUSTERS} clusters against none: input rows', 0.65,
             functools.partial(rows_of_clusters, clusters))]


def row_of(case, host):
    row = {'case': case.name, 'what': case.what, 'bar': case.bar}
    if case.gpus > len(host.gpus) and not host.small:
        return row | {'verdict': f'not measurable here: it needs {case.gpus} GPUs, and there are {len(host.gpus)}'}
    try:
        found = case.measure(host, case)
    except NotMeasurable as reason:
        return row | {'verdict': f'not measurable here: {reason}'}
    except Failed as failure:
        print(failure, file=sys.stderr)
        return row | {'verdict': 'failed', 'error': str(failure)}
    ratio = found.measured / found.reference
    verdict = 'tiny, not judged' if host.small else 'met' if ratio <= case.bar else 'missed'
    return row | dataclasses.asdict(found) | {'ratio': ratio, 'device': host.device(case), 'verdict': verdict}


def line_of(row):
    if 'ratio' not in row:
        return f'| {row["what"]} | | | | {row["bar"]:.2f} | {row["verdict"]} |'
    digits = 0 if row['unit'].startswith('rows') else 2
    return (f'| {row["what"]} | {row["measured"]:,.{digits}f} | {row["reference"]:,.{digits}f} | {row["ratio"]:.2f} | {row["bar"]:.2f} | '
            f'{row["verdict"]} |')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', help=f'some of {", ".join(case.name for case in cases())}')
    parser.add_argument('--runs', type=int, default=3, help='of each kind, of which the median counts')
    parser.add_argument('--small', action='store_true', help='tiny graphs, on CPUs where there are not enough GPUs: to try the cases')
    parser.add_argument('--json')
    arguments = parser.parse_args()
    chosen = arguments.only.split(',') if arguments.only else [case.name for case in cases()]
    if unknown := set(chosen) - {case.name for case in cases()}:
        parser.error(f'there is no case {", ".join(sorted(unknown))}')
    rows = []
    with tempfile.TemporaryDirectory(prefix='strata-bars-') as folder:
        host = Host(arguments, folder)
        print(f'{len(os.sched_getaffinity(0))} cores; GPUs: {", ".join(host.gpus) or "none"}; medians of {arguments.runs} runs, ms per step\n\n'
              '| case | measured | compared with | ratio | bar | |\n|---|---|---|---|---|---|')
        for case in cases():
            if case.name not in chosen:
                continue
            rows.append(row_of(case, host))
            print(line_of(rows[-1]), flush=True)
    if arguments.json:
        facts = {'cores': len(os.sched_getaffinity(0)), 'gpus': host.gpus, 'runs': arguments.runs, 'small': arguments.small, 'rows': rows}
        pathlib.Path(arguments.json).write_text(json.dumps(facts, indent=1) + '\n')
    for row in rows:
        if 'error' in row:
            print(f'{row["case"]}: {row["error"]}', file=sys.stderr)
    sys.exit(1 if any('error' in row for row in rows) else 0)


if __name__ == '__main__':
    main()
