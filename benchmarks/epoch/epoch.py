#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds per second and the time of each stage of a training epoch, as a table and as JSON.

    epoch.py --graph GRAPH [--ranks 1] [--runs 3] [--sm-split-sweep [SPLITS]] [--json FILE] [-- OPTIONS OF strata-train]

Each run trains three epochs without evaluation; the first warms up, the others count. Printed are medians over all counted
epochs. Stage times overlap: what the sum has beyond the wall time is hidden. "wait" is what training waited for the other two.
For SAGE on a GPU with its rows in GPU memory the time of a step is printed beside its roofline: the bytes that its sums, products
and gradients must move at least, over the rate of a device copy that torch measures on the same GPU, if the Python at hand has it.
--sm-split-sweep does so for each of several splits of a GPU's SMs between loading and training ('off 10,90 20,100'; some are known
without a list) and prints a line for each: what auto would have to choose from.
Needs the built programs (STRATA_BIN, or build/cuda/bin, or build/cpu/bin).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
EPOCHS = 3
SPLITS = 'off 10,90 20,80 30,70 50,50 10,100 20,100 40,100 100,90'
STAGES = ['seconds', 'sample_seconds', 'gather_seconds', 'train_seconds', 'wait_seconds']


def program():
    for folder in filter(None, [os.environ.get('STRATA_BIN'), REPOSITORY / 'build/cuda/bin', REPOSITORY / 'build/cpu/bin']):
        if (pathlib.Path(folder) / 'strata-train').exists():
            return pathlib.Path(folder) / 'strata-train'
    sys.exit('strata-train is not built; run launch/build or set STRATA_BIN')


def run(arguments, options, folder):
    """The records of one run's metrics."""
    command = ['mpirun', '-n', str(arguments.ranks), '--oversubscribe', '--bind-to', 'none', str(program()), '--graph',
               arguments.graph, '--output', folder, '--epochs', str(EPOCHS), '--eval-every', '0', '--eval-fanouts',
               arguments.cheap_evaluation, '--checkpoint-every', '0', '--overwrite', *options]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return [json.loads(line) for line in (pathlib.Path(folder) / 'metrics.jsonl').read_text().splitlines()]


def copy_rate():
    """Bytes per second, read and written, of a copy of 1 GiB; None without torch."""
    try:
        import torch
    except ImportError:
        return None
    source = torch.empty(2**30, dtype=torch.uint8, device='cuda')
    target = torch.empty_like(source)
    times = []
    for _ in range(12):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return 2 * source.numel() / statistics.median(times[2:])


def step_bytes(setup, precision):
    """The bytes that a SAGE step moves at least: each edge's and each own row once forward, and once backward but for the input layer;
    joined rows, products and their gradients once written and once read for each use. Nothing is left in caches."""
    width = 2 if precision == 'bf16' else 4
    layers = len(setup['fanouts'])
    cols = [setup['feature_cols']] + [setup['hidden']] * (layers - 1)
    out = [setup['hidden']] * (layers - 1) + [setup['classes']]
    total = 0
    for layer in range(layers):
        hop = layers - 1 - layer
        nodes, edges = setup['batch_nodes'][hop], setup['batch_edges'][hop]
        joined, product = 2 * nodes * cols[layer] * width, nodes * out[layer] * width
        total += (edges + nodes) * cols[layer] * (4 if layer == 0 else width)  # the sum reads
        total += 2 * joined + product            # joined rows are written and multiplied
        total += joined + product                # gradient of the weights
        if layer > 0:
            below = setup['batch_nodes'][hop + 1]
            total += 2 * joined + product        # gradient of the joined rows, written and read
            total += 2 * below * cols[layer] * width  # the product below shows what passed; its gradient is written
    return total


def print_roofline(setup, row, options):
    model, on_host = setup['model'], any('host' in option for option in options)
    if model != 'sage' or not setup['batch_nodes'] or on_host:
        return
    rate = copy_rate()
    if rate is None:
        return
    precision = 'bf16' if 'bf16' in options else 'f32'
    row['step_seconds'] = row['seconds'] / row['steps']
    row['roofline_seconds'] = step_bytes(setup, precision) / rate
    print(f'a step {row["step_seconds"] * 1e3:.3f} ms; its {step_bytes(setup, precision) / 1e6:.0f} MB at the {rate / 1e9:.0f} GB/s of a '
          f'device copy {row["roofline_seconds"] * 1e3:.3f} ms: {row["roofline_seconds"] / row["step_seconds"]:.2f} of the step')


def measure(arguments, options):
    """The setup of the runs, the medians of their counted epochs, and these epochs."""
    epochs, setup, final = [], {}, {}
    for _ in range(arguments.runs):
        with tempfile.TemporaryDirectory(prefix='strata-epoch-') as folder:
            records = run(arguments, options, folder)
        setup = next(record for record in records if record['type'] == 'run')
        final = next(record for record in records if record['type'] == 'final')
        epochs += [record for record in records if record['type'] == 'epoch'][1:]
    row = {stage: statistics.median(epoch[stage] for epoch in epochs) for stage in STAGES}
    row['seeds_per_second'] = statistics.median(epoch['seeds_per_second'] for epoch in epochs)
    row['steps'] = epochs[0]['steps']
    hidden = sum(row[f'{stage}_seconds'] for stage in ('sample', 'gather', 'train')) - row['seconds']
    busy = row['sample_seconds'] + row['gather_seconds']
    row['hidden_share'] = max(0.0, min(1.0, hidden / busy)) if busy > 0 else 0.0
    row['peak_host_bytes'] = final['peak_host_bytes']
    return {'setup': setup, 'median': row, 'epochs': epochs}


def print_setup(arguments, result):
    setup = result['setup']
    print(f'{arguments.graph}, {setup["ranks"]} ranks on {setup["device"]}, fanouts {setup["fanouts"]}, hidden {setup["hidden"]}, '
          f'{setup["global_batch_size"]} seeds per step; median of {len(result["epochs"])} epochs')


def measure_job(arguments):
    result = measure(arguments, arguments.options)
    row = result['median']
    print_setup(arguments, result)
    print(f'{"epoch s":>9} {"seeds/s":>11} {"sample s":>9} {"gather s":>9} {"train s":>9} {"wait s":>8} {"hidden":>7} {"peak host":>10}')
    print(f'{row["seconds"]:9.3f} {row["seeds_per_second"]:11,.0f} {row["sample_seconds"]:9.3f} {row["gather_seconds"]:9.3f} '
          f'{row["train_seconds"]:9.3f} {row["wait_seconds"]:8.3f} {row["hidden_share"]:7.0%} {row["peak_host_bytes"] / 2**30:6.2f} GiB')
    print_roofline(result['setup'], row, arguments.options)
    return result


def sweep_splits(arguments):
    results = {}
    for split in arguments.sm_split_sweep.split():
        results[split] = measure(arguments, [*arguments.options, '--sm-split', split])
        row = results[split]['median']
        if len(results) == 1:
            print_setup(arguments, results[split])
            print(f'{"LOAD,TRAIN":>10} {"step ms":>8} {"epoch s":>9} {"sample s":>9} {"gather s":>9} {"train s":>9} {"wait s":>8}')
        print(f'{split:>10} {row["seconds"] / row["steps"] * 1e3:8.3f} {row["seconds"]:9.3f} {row["sample_seconds"]:9.3f} '
              f'{row["gather_seconds"]:9.3f} {row["train_seconds"]:9.3f} {row["wait_seconds"]:8.3f}', flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--graph', required=True)
    parser.add_argument('--ranks', type=int, default=1)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--sm-split-sweep', nargs='?', const=SPLITS)
    parser.add_argument('--json')
    arguments, options = parser.parse_known_args()
    arguments.options = [option for option in options if option != '--']
    fanouts = next((value for name, value in zip(arguments.options, arguments.options[1:]) if name == '--fanouts'), '15,10,5')
    # The run must end with an evaluation; one neighbor a hop keeps it short.
    arguments.cheap_evaluation = ','.join('1' for _ in fanouts.split(','))
    results = sweep_splits(arguments) if arguments.sm_split_sweep else measure_job(arguments)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + '\n')


if __name__ == '__main__':
    main()
