#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which of Open MPI's settings matter to a run on several machines: a step with each of them, beside a step without.

    settings.py [--ranks 4,16] [--seconds 240] [--only WORD] [--json FILE] [-- OPTIONS OF strata-train]

Trains on the CPUs of this host, each rank as a virtual machine that keeps nothing of the others, with one setting after the other, in
rounds, as many as fit into the time; every second round goes backwards. A setting's run is divided by the one of the same round that
changes nothing but the transport; the table has the median of these ratios, the smallest and the largest, and what ranks take for a round
of messages and for bytes. A setting that fails is left out from then on. On a cluster, give mpirun's words with --mpirun '...' (hosts,
btl_tcp_if_include) and --ranks-per-machine 0. Needs the built programs (STRATA_BIN, or build/cuda/bin, or build/cpu/bin).
"""
import argparse
import dataclasses
import json
import os
import pathlib
import shlex
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import Failed, bin_folder, finished  # noqa: E402

CORES = len(os.sched_getaffinity(0))
GRAPH = 'planted:parts=48,within=0.5,nodes=150000,edges=3000000,features=64,classes=16,train=24000,seed=1'
OPTIONS = ['--fanouts', '10,5', '--hidden', '64', '--global-batch-size', '1024', '--epochs', '6']
COMMON = {'mpi_yield_when_idle': '1', 'btl_tcp_rdma_pipeline_frag_size': '262144', 'btl_vader_single_copy_mechanism': 'none'}
TRANSPORTS = {'shared memory': {}, 'TCP': {'btl': 'tcp,self'}}
AS_IS = 'as launch/mpi-env sets it'
UNBOUND = ('--bind-to', 'none')
MOST_SECONDS = 120  # of a run


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str
    parameters: dict = dataclasses.field(default_factory=dict)  # of Open MPI, beside COMMON and the transport's
    words: tuple = UNBOUND  # of mpirun; {cores}: of a rank
    transports: tuple = tuple(TRANSPORTS)


SETTINGS = [Setting(AS_IS),
            Setting('mpi_yield_when_idle 0', {'mpi_yield_when_idle': '0'}),
            Setting('bound: each rank to its cores', words=('--map-by', 'slot:PE={cores}', '--bind-to', 'core'), transports=('shared memory',)),
            Setting('bound: each rank to one core', words=('--bind-to', 'core'), transports=('shared memory',)),
            Setting('single copy by cma', {'btl_vader_single_copy_mechanism': 'cma'}, transports=('shared memory',)),
            Setting('eager limit 64 KiB', {'btl_vader_eager_limit': '65536', 'btl_vader_max_send_size': '131072'}, transports=('shared memory',)),
            Setting('coll ^tuned', {'coll': '^tuned'}, transports=('shared memory',)),
            Setting('eager limit 256 KiB', {'btl_tcp_eager_limit': '262144', 'btl_tcp_max_send_size': '524288'}, transports=('TCP',)),
            Setting('large messages whole', {'btl_tcp_rdma_pipeline_frag_size': '2147482624'}, transports=('TCP',)),
            Setting('4 links', {'btl_tcp_links': '4'}, transports=('TCP',)),
            Setting('socket buffers of 4 MiB', {'btl_tcp_sndbuf': '4194304', 'btl_tcp_rcvbuf': '4194304'}, transports=('TCP',)),
            Setting('progress thread', {'btl_tcp_progress_thread': '1'}, transports=('TCP',))]


def train(arguments, ranks, transport, setting, folder):
    """Seconds of a step, and the link."""
    output = pathlib.Path(folder) / 'run'
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    for parameter, value in {**COMMON, **TRANSPORTS[transport], **setting.parameters}.items():
        environment[f'OMPI_MCA_{parameter}'] = value
    words = [word.format(cores=max(1, CORES // ranks)) for word in setting.words]
    command = ['mpirun', '-n', ranks, '--oversubscribe', *words, *shlex.split(arguments.mpirun), bin_folder() / 'strata-train',
               '--graph', arguments.graph, '--device', 'cpu', '--ranks-per-machine', arguments.ranks_per_machine, '--replicate-graph', 'off',
               '--halo-cache', 0, '--eval-every', 0, '--eval-fanouts', '1,1', '--checkpoint-every', 0, '--output', output, '--overwrite',
               '--log-level', 'warn', *OPTIONS, *arguments.options]
    finished(command, environment, MOST_SECONDS)
    records = [json.loads(line) for line in (output / 'metrics.jsonl').read_text().splitlines()]
    epochs = [r['seconds'] / r['steps'] for r in records if r['type'] == 'epoch' and r['epoch'] > 1]
    return {'step': statistics.median(epochs), **next(r for r in records if r['type'] == 'run')['link']}


@dataclasses.dataclass
class Case:
    transport: str
    setting: Setting
    runs: dict = dataclasses.field(default_factory=dict)  # by round
    failure: str = ''


def measure_round(arguments, ranks, cases, number, folder):
    for case in cases if number % 2 == 0 else reversed(cases):
        if case.failure:
            continue
        try:
            case.runs[number] = train(arguments, ranks, case.transport, case.setting, folder)
        except Failed as failure:
            if case.setting.name == AS_IS:
                sys.exit(f'{case.transport}, without any setting: {failure}')
            case.failure = str(failure)
            print(f'{case.transport}, {case.setting.name}: {failure}', file=sys.stderr)
        print('.', end='', file=sys.stderr, flush=True)


def measure(arguments, ranks, seconds, folder):
    """Measures as many rounds as the seconds allow, one at least."""
    cases = [Case(transport, setting) for transport in TRANSPORTS for setting in SETTINGS if transport in setting.transports
             and (setting.name == AS_IS or arguments.only in setting.name)]
    begin, rounds = time.monotonic(), 0
    while rounds == 0 or (time.monotonic() - begin) * (rounds + 1) / rounds <= seconds:
        measure_round(arguments, ranks, cases, rounds, folder)
        rounds += 1
    print(file=sys.stderr)
    return cases


def ratios(case, plain):
    """Ratios to the run of the same round that changes nothing but the transport."""
    return [run['step'] / plain.runs[number]['step'] for number, run in case.runs.items() if number in plain.runs]


def row(case, plain):
    label = f'{case.transport} | {case.setting.name}'
    of_plain = ratios(case, plain)
    if case.failure or not of_plain:
        return f'| {label} | does not run | | | | | |'
    of = {key: statistics.median(run[key] for run in case.runs.values()) for key in ('step', 'round_seconds', 'bytes_per_second')}
    spread = f'{min(of_plain):.2f} to {max(of_plain):.2f}' if case is not plain else ''
    return (f'| {label} | {1e3 * of["step"]:.1f} ms | {statistics.median(of_plain):.2f} | {spread} | {len(of_plain)} | '
            f'{1e6 * of["round_seconds"]:.0f} us | {of["bytes_per_second"] / 1e9:.2f} GB/s |')


def table(ranks, cases):
    plain = {case.transport: case for case in cases if case.setting.name == AS_IS}
    of_plain = [run['step'] for run in plain['shared memory'].runs.values()]
    lines = [f'{ranks} ranks, {CORES} cores; the steps of the first row from run to run: '
             f'{1e3 * min(of_plain, default=0):.1f} to {1e3 * max(of_plain, default=0):.1f} ms', '',
             '| transport | setting | step | of the same without | from round to round | rounds | a round of messages | bytes between ranks |',
             '|---|---|---|---|---|---|---|---|']
    return lines + [row(case, plain[case.transport]) for case in cases] + ['']


def arguments_given():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--ranks', default=','.join(map(str, sorted({max(2, CORES // 4), max(2, CORES)}))),
                        help='one table for each number (default: a rank per four cores, and one per core)')
    parser.add_argument('--ranks-per-machine', type=int, default=1)
    parser.add_argument('--seconds', type=float, default=240, help='for all tables')
    parser.add_argument('--graph', default=GRAPH)
    parser.add_argument('--mpirun', default='', help='further words of mpirun')
    parser.add_argument('--only', default='', help='settings whose name contains this')
    parser.add_argument('--json', help='writes every run there, too')
    arguments, options = parser.parse_known_args()
    arguments.options = [option for option in options if option != '--']
    return arguments


def main():
    arguments = arguments_given()
    numbers = [int(number) for number in arguments.ranks.split(',')]
    print(f'load average before: {os.getloadavg()[0]:.1f}', file=sys.stderr)
    every = []
    with tempfile.TemporaryDirectory(prefix='strata-mpi-') as folder:
        for ranks in numbers:
            cases = measure(arguments, ranks, arguments.seconds / len(numbers), folder)
            every += [{'ranks': ranks, 'cores': CORES, 'transport': case.transport, 'setting': case.setting.name, 'round': number, **run}
                      for case in cases for number, run in case.runs.items()]
            print('\n'.join(table(ranks, cases)), flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(every, indent=1) + '\n')


if __name__ == '__main__':
    main()
