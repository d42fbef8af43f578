#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test scores on real graphs, mean over seeds, beside a reference of PyG trained on the full batch.

    accuracy.py [--jobs ci|all|NAME,...] [--seeds 3] [--device auto|cpu|cuda] [--check] [--json FILE] [--readme] [--from FILE ...]

Needs the built programs (STRATA_BIN, or build/cuda/bin, or build/cpu/bin) and the graphs (STRATA_DATA, or ../shared/data).
With --readme the results join those in results.json, and the table in README.md is made again from them; --from takes results that
--json wrote on other machines, instead of training.
With --check the exit code is 1 if a mean falls more than 1.5 points below its reference.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get('STRATA_DATA', REPOSITORY.parent / 'shared' / 'data'))
TOLERANCE = 0.015


@dataclasses.dataclass
class Job:
    dataset: str             # folder of DATA, or facebook100:SCHOOLS
    model: str
    reference: float         # of the same metric
    options: list
    metric: str = 'accuracy'
    in_ci: bool = False
    precision: str = 'f32'
    features: str = 'stored'   # --feature-format

    @property
    def name(self):
        return '-'.join([self.dataset, self.model, *self.variants])

    @property
    def variants(self):
        return [value for value, default in ((self.precision, 'f32'), (self.features, 'stored')) if value != default]


PLANETOID = '--fanouts -1,-1 --hidden 64 --dropout 0.6 --input-dropout 0.6 --lr 0.01 --weight-decay 5e-4 --epochs 200'
NORMALIZED = 'cora', 'citeseer'   # when they are built
HETEROPHILOUS = '--fanouts -1,-1,-1 --hidden 256 --dropout 0.2 --lr 0.003 --epochs 300 --batch-size 1024 --eval-every 5 --metric roc_auc'
SCHOOL = '--fanouts -1,-1 --hidden 64 --dropout 0.3 --lr 0.01 --batch-size 512 --epochs 40'
FACEBOOK = '--fanouts 15,15 --hidden 256 --dropout 0.3 --lr 0.005 --batch-size 1024 --epochs 10'


def in_bf16(job):
    return dataclasses.replace(job, precision='bf16', in_ci=False)


def jobs():
    f32 = [
        Job('cora', 'sage', .814, PLANETOID.split(), in_ci=True),
        Job('cora', 'gcn', .825, PLANETOID.split(), in_ci=True),
        Job('cora', 'gat', .815, PLANETOID.split()),
        Job('citeseer', 'sage', .695, PLANETOID.split(), in_ci=True),
        Job('citeseer', 'gcn', .719, PLANETOID.split(), in_ci=True),
        Job('citeseer', 'gat', .708, PLANETOID.split()),
        Job('tolokers', 'sage', .831, HETEROPHILOUS.split(), 'roc_auc'),
        Job('tolokers', 'gcn', .772, HETEROPHILOUS.split(), 'roc_auc'),
        Job('tolokers', 'gat', .789, HETEROPHILOUS.split(), 'roc_auc'),
        Job('minesweeper', 'sage', .921, HETEROPHILOUS.split(), 'roc_auc'),
        Job('minesweeper', 'gcn', .761, HETEROPHILOUS.split(), 'roc_auc'),
        Job('minesweeper', 'gat', .858, HETEROPHILOUS.split(), 'roc_auc'),
        Job('facebook100:Bucknell39', 'sage', .894, SCHOOL.split(), in_ci=True),
        Job('facebook100', 'sage', .768, FACEBOOK.split()),
        Job('facebook100', 'gcn', .763, FACEBOOK.split()),
        Job('facebook100', 'gat', .690, FACEBOOK.split()),
    ]
    compressed = [dataclasses.replace(job, features=kind, in_ci=False)
                  for job in f32 if job.model == 'sage' and job.dataset.startswith('facebook100') for kind in ('i8', 'i4')]
    return f32 + [in_bf16(job) for job in f32 if job.model == 'sage' or job.dataset == 'facebook100'] + compressed


def program_folder():
    candidates = [os.environ.get('STRATA_BIN'), REPOSITORY / 'build/cuda/bin', REPOSITORY / 'build/cpu/bin', REPOSITORY / 'dist/bin']
    for folder in filter(None, candidates):
        if (pathlib.Path(folder) / 'strata-train').exists():
            return pathlib.Path(folder)
    sys.exit('strata-train is not built; run launch/build or set STRATA_BIN')


def run(command):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(map(str, command))}\n{done.stdout}{done.stderr}')
    return done.stdout


def prepare(dataset, folder, programs):
    """Partitions a set into one part; returns the directory."""
    output = folder / dataset.replace(':', '-')
    if output.exists():
        return output
    spec = f'ogb:{DATA / dataset}'
    if not (DATA / dataset / 'raw').exists():
        name, _, schools = dataset.partition(':')
        source = folder / f'{output.name}-source'
        run([sys.executable, DATA / 'to_graphbolt.py', name, source] + (['--schools', schools] if schools else []))
        spec = f'graphbolt:{source}'
    how = ['--normalize-features'] if dataset in NORMALIZED else []
    run([programs / 'strata-partition', 'build', '--input', spec, '--parts', 1, '--output', output, *how])
    return output


def score(job, graph, seed, programs, arguments, folder):
    output = folder / f'run-{job.name.replace(":", "-")}-{seed}'
    run([programs / 'strata-train', '--graph', graph, '--model', job.model, '--output', output, '--seed', seed, '--device',
         arguments.device, '--precision', job.precision, '--feature-format', job.features, '--checkpoint-every', 0, *job.options])
    final = [json.loads(line) for line in (output / 'metrics.jsonl').read_text().splitlines()][-1]
    shutil.rmtree(output)
    return final['test'][job.metric]


def measure(job, programs, arguments, folder):
    graph = prepare(job.dataset, folder, programs)
    start = time.monotonic()
    scores = [score(job, graph, seed, programs, arguments, folder) for seed in range(arguments.seeds)]
    return {'job': job.name, 'dataset': job.dataset, 'model': job.model, 'variants': job.variants, 'precision': job.precision, 'metric': job.metric, 'mean': statistics.mean(scores), 'spread': statistics.pstdev(scores),
            'reference': job.reference, 'scores': scores, 'seconds': (time.monotonic() - start) / arguments.seeds,
            'ok': statistics.mean(scores) >= job.reference - TOLERANCE}


def markdown(rows):
    lines = ['| graph | model | metric | Strata | PyG, full batch, f32 |', '|---|---|---|---|---|']
    for row in rows:
        variants = row.get('variants', [row['precision']] if row['precision'] != 'f32' else [])
        model = ', '.join([row['model'], *variants])
        lines.append(f'| {row["dataset"]} | {model} | {row["metric"]} | {row["mean"]:.3f} ± {row["spread"]:.3f} | {row["reference"]:.3f} |')
    return '\n'.join(lines) + '\n'


def update_readme(rows):
    """Puts the rows into results.json in the order of the jobs, and the table between the marks of README.md."""
    path = pathlib.Path(__file__).with_name('results.json')
    known = {row['job']: row for row in json.loads(path.read_text())} if path.exists() else {}
    known.update({row['job']: row for row in rows})
    ordered = [known[job.name] for job in jobs() if job.name in known]
    path.write_text(json.dumps(ordered, indent=1) + '\n')
    readme = pathlib.Path(__file__).with_name('README.md')
    before, rest = readme.read_text().split('<!-- accuracy -->\n')
    after = rest.split('<!-- end of accuracy -->\n')[1]
    readme.write_text(f'{before}<!-- accuracy -->\n{markdown(ordered)}<!-- end of accuracy -->\n{after}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--jobs', default='ci')
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--device', default='auto')
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--json')
    parser.add_argument('--readme', action='store_true')
    parser.add_argument('--from', dest='measured', nargs='+', default=[], metavar='FILE')
    arguments = parser.parse_args()
    if arguments.measured:
        return update_readme([row for path in arguments.measured for row in json.loads(pathlib.Path(path).read_text())])
    chosen = [job for job in jobs() if arguments.jobs == 'all' or (arguments.jobs == 'ci' and job.in_ci)
              or job.name in arguments.jobs.split(',')]
    if not chosen:
        parser.error(f'no such job; there are {", ".join(job.name for job in jobs())}')
    if not DATA.exists():
        print(f'-- skipped: 1 of 1 cases: {DATA} is missing; set STRATA_DATA')
        return 77
    programs, rows = program_folder(), []
    with tempfile.TemporaryDirectory(prefix='strata-accuracy-') as folder:
        for job in chosen:
            rows.append(measure(job, programs, arguments, pathlib.Path(folder)))
            row = rows[-1]
            print(f'{row["job"]:28} {row["metric"]:9} {row["mean"]:.4f} +- {row["spread"]:.4f}  reference {row["reference"]:.3f}  '
                  f'{row["seconds"]:.1f} s a run  {"ok" if row["ok"] else "BELOW"}', flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1) + '\n')
    if arguments.readme:
        update_readme(rows)
    return 1 if arguments.check and not all(row['ok'] for row in rows) else 0


if __name__ == '__main__':
    sys.exit(main())
