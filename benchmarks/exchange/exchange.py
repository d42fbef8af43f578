#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what machines ask of each other while they train, and how much of it training waits for, as a table and as JSON.

    exchange.py [--graph SPEC|planted:...] [--machines 2] [--ranks 1] [--methods metis,random] [--json FILE] [-- OPTIONS OF strata-train]

Builds parts of SPEC, one per machine, by each method (of planted:... each machine generates its own), and trains a few epochs on
virtual machines of this host: with halo caches, without, and with the structure replicated; and beside them on one machine of
as many ranks. Of a run counts the median of the epochs from the third on (the first record steps and warm up), and of several
runs the median. The bytes of rows that ranks sent are compared with a
count from the distinct nodes that were asked for. Needs the built programs (STRATA_BIN, or build/cuda/bin, or build/cpu/bin).
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import Failed, bin_folder  # noqa: E402

WARM_UP_EPOCHS = 2
KEPT = ['caches', 'none', 'replicated']
ONE_MACHINE = 'one machine'
PLANTED = 'planted:'
ID_BYTES = 8


def run(command):
    print('+', ' '.join(map(str, command)), file=sys.stderr)
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True)
    if done.returncode != 0:
        raise Failed((done.stdout + done.stderr).strip())


def options_for(kept, ranks, cache):
    if kept == ONE_MACHINE:
        return []
    return ['--ranks-per-machine', ranks, '--replicate-graph', 'on' if kept == 'replicated' else 'off', '--halo-cache', '0' if kept == 'none' else cache]


def train(parts, arguments, kept, folder):
    """The records of a run, by type; of its epochs the median one of those that count."""
    output = pathlib.Path(folder) / 'run'
    shutil.rmtree(output, ignore_errors=True)
    fanouts = next((value for name, value in zip(arguments.options, arguments.options[1:]) if name == '--fanouts'), '15,10,5')
    run(['mpirun', '-n', arguments.machines * arguments.ranks, '--oversubscribe', '--bind-to', 'none', bin_folder() / 'strata-train',
         '--graph', parts, '--output', output, '--epochs', arguments.epochs, '--eval-every', 0,
         '--eval-fanouts', ','.join('1' for _ in fanouts.split(',')), '--checkpoint-every', 0,
         *options_for(kept, arguments.ranks, arguments.cache), *arguments.options])
    records = [json.loads(line) for line in (output / 'metrics.jsonl').read_text().splitlines()]
    epochs = sorted((record for record in records if record['type'] == 'epoch'), key=lambda record: record['epoch'])
    counting = sorted(epochs[WARM_UP_EPOCHS:] or epochs[-1:], key=lambda record: record['seconds'])
    return {record['type']: record for record in records} | {'epoch': counting[len(counting) // 2]}


def step_ms(records):
    return 1e3 * records['epoch']['seconds'] / records['epoch']['steps']


def share(part, whole):
    return part / whole if whole else 0.0


def row_of(method, kept, records, epochs, feature_bytes):
    """One row of the table. Exchange was counted over all epochs, what training waited in the one that counts."""
    exchange, epoch, setup = records['exchange'], records['epoch'], records['run']
    neighbors, features = exchange['neighbors'], exchange['features']
    steps, ranks = setup['steps_per_epoch'] * epochs, setup['ranks']
    asked = features['remote'] - features['cached']
    return {'method': method, 'kept': kept, 'row_exchange': setup['row_exchange'], 'device': setup['device'],
            'remote_nodes': [share(hop['remote'], hop['nodes']) for hop in neighbors['hops']],
            'cached_nodes': [share(hop['cached'], hop['remote']) for hop in neighbors['hops']],
            'hop_bytes_per_step': [hop['bytes'] / steps for hop in neighbors['hops']],
            'remote_rows': share(features['remote'], features['rows']), 'cached_rows': share(features['cached'], features['remote']),
            'row_bytes_per_step': features['bytes'] / steps,
            'row_bytes_by_count': share(features['bytes'], asked * (ID_BYTES + feature_bytes)),
            'exchange_ms': 1e3 * (neighbors['seconds'] + features['seconds']) / steps,
            'stage_waited_ms': 1e3 * (neighbors['waited_seconds'] + features['waited_seconds']) / steps,
            'training_waited_ms': 1e3 * epoch['wait_seconds'] / epoch['steps'],
            'sum_ms': 1e3 * epoch['sum_seconds'] / epoch['steps'], 'compute_ms': 1e3 * epoch['compute_seconds'] / epoch['steps'],
            'step_ms': step_ms(records), 'loss': epoch['loss'], 'epoch_seconds': epoch['seconds'], 'seeds_per_second': epoch['seeds_per_second'], 'ranks': ranks}


def measured(method, kept, parts, arguments, folder):
    """The run with the median step, and how much the slowest of the runs took of the fastest."""
    rows = [row_of(method, kept, train(parts, arguments, kept, folder), arguments.epochs, 4 * arguments.features) for _ in range(arguments.runs)]
    rows.sort(key=lambda row: row['step_ms'])
    return rows[len(rows) // 2] | {'spread': rows[-1]['step_ms'] / rows[0]['step_ms']}


def on_one_machine(parts, arguments, folder):
    return statistics.median(step_ms(train(parts, arguments, ONE_MACHINE, folder)) for _ in range(arguments.runs))


def percents(values):
    return '/'.join(f'{100 * value:.0f}' for value in values) or '-'


def print_table(rows):
    print(f'{"parts":>8} {"kept":>10} {"step ms":>8} {"of one machine":>14} {"spread":>6} {"remote % per hop":>16} {"cached %":>12} '
          f'{"rows remote, cached %":>22} {"MB per step":>11} {"of count":>8} {"exchange ms":>11} {"stages wait":>11} '
          f'{"waits for batches":>17} {"sums":>6} {"computes":>8}')
    for row in rows:
        megabytes = (sum(row['hop_bytes_per_step']) + row['row_bytes_per_step']) / 1e6
        print(f'{row["method"]:>8} {row["kept"]:>10} {row["step_ms"]:>8.3f} {row["step_ms"] / row["one_machine_ms"]:>14.2f} {row["spread"]:>6.2f} '
              f'{percents(row["remote_nodes"]):>16} {percents(row["cached_nodes"]):>12} '
              f'{100 * row["remote_rows"]:>12.1f}, {100 * row["cached_rows"]:>8.1f} {megabytes:>11.2f} {row["row_bytes_by_count"]:>8.3f} '
              f'{row["exchange_ms"]:>11.2f} {row["stage_waited_ms"]:>11.2f} {row["training_waited_ms"]:>17.2f} {row["sum_ms"]:>6.2f} '
              f'{row["compute_ms"]:>8.2f}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--graph', default='synthetic:products,nodes=500000')
    parser.add_argument('--features', type=int, default=100, help='columns of the graph, in f32')
    parser.add_argument('--machines', type=int, default=2)
    parser.add_argument('--ranks', type=int, default=1, help='of a machine')
    parser.add_argument('--methods', default='metis,random', help='of strata-partition build')
    parser.add_argument('--kept', default=','.join(KEPT), help='what machines keep of each other: caches, none, replicated')
    parser.add_argument('--cache', default='auto', help='of a machine, for `caches` and `replicated`: 1GiB')
    parser.add_argument('--folder', help='for parts; kept, and not built again')
    parser.add_argument('--epochs', type=int, default=6, help='of a run')
    parser.add_argument('--runs', type=int, default=1, help='of each case, of which the median counts')
    parser.add_argument('--json')
    arguments, options = parser.parse_known_args()
    arguments.options = [option for option in options if option != '--']
    rows = []
    with tempfile.TemporaryDirectory(prefix='strata-exchange-') as scratch:
        for method in ['planted'] if arguments.graph.startswith(PLANTED) else arguments.methods.split(','):
            parts = pathlib.Path(arguments.folder or scratch) / f'{method}{arguments.machines}'
            if method == 'planted':
                parts = arguments.graph
            elif not parts.exists():
                run([bin_folder() / 'strata-partition', 'build', '--input', arguments.graph, '--parts', arguments.machines,
                     '--method', method, '--output', parts])
            alone = on_one_machine(parts, arguments, scratch)
            for kept in arguments.kept.split(','):
                rows.append(measured(method, kept, parts, arguments, scratch) | {'one_machine_ms': alone})
    print(f'{arguments.graph}, {arguments.machines} machines of {arguments.ranks} ranks on {rows[0]["device"]}, '
          f'rows over {rows[0]["row_exchange"]}; one machine of as many ranks beside them')
    print_table(rows)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({'graph': arguments.graph, 'machines': arguments.machines, 'rows': rows}, indent=1) + '\n')


if __name__ == '__main__':
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
