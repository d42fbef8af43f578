#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Epochs of another framework on a graph of strata-partition, as the table and the JSON of benchmarks/epoch.

    peers.py --peer wholegraph|pyg|dgl --graph PARTS [--gpus 1] [--fanouts 15,10,5] [--json FILE]; see README.md
"""
import argparse
import importlib
import json
import os
import pathlib
import resource
import socket
import statistics
import sys

SKIPPED = 77
STAGES = ['sample_seconds', 'gather_seconds', 'train_seconds']     # where they are timed


def arguments_of(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--peer', required=True, choices=['wholegraph', 'pyg', 'dgl'])
    parser.add_argument('--graph', required=True)
    parser.add_argument('--gpus', type=int, default=1, help='0: on the CPU')
    parser.add_argument('--fanouts', type=lambda text: [int(word) for word in text.split(',')], default=[15, 10, 5],
                        help='first hop first')
    parser.add_argument('--hidden', type=int, default=256)
    parser.add_argument('--batch-size', type=int, default=1024)
    parser.add_argument('--dropout', type=float, default=0.5)
    parser.add_argument('--lr', type=float, default=0.003)
    parser.add_argument('--epochs', type=int, default=4, help='the first is left out')
    parser.add_argument('--features', choices=['gpu', 'host'], default='gpu')
    parser.add_argument('--workers', type=int, default=8, help='sampling processes of PyG')
    parser.add_argument('--stages', action='store_true', help='time the stages, which makes GPUs wait after each')
    parser.add_argument('--no-tf32', dest='tf32', action='store_false')
    parser.add_argument('--json')
    arguments = parser.parse_args(words)
    if arguments.epochs < 2:
        parser.error('--epochs: at least 2, for the first only warms up')
    return arguments


def work(rank, arguments):
    import torch

    import part_graph
    import training
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    device = torch.device('cuda', rank) if arguments.gpus else torch.device('cpu')
    ranks = max(1, arguments.gpus)
    if arguments.gpus:
        torch.cuda.set_device(device)
    if ranks > 1 and arguments.peer != 'wholegraph':   # which makes the process group itself
        torch.distributed.init_process_group('nccl', rank=rank, world_size=ranks)
    job = training.Job(fanouts=arguments.fanouts, hidden=arguments.hidden, batch=arguments.batch_size, epochs=arguments.epochs,
                       dropout=arguments.dropout, learning_rate=arguments.lr, host_features=arguments.features == 'host',
                       workers=arguments.workers, stages=arguments.stages or not arguments.gpus, rank=rank, ranks=ranks, device=device)
    records = importlib.import_module(f'{arguments.peer}_peer').run(job, part_graph.read(arguments.graph))
    if rank == 0:
        report(arguments, records[1:])


def report(arguments, epochs):
    keys = [key for key in ['seconds', 'seeds_per_second', *STAGES] if key in epochs[0]]
    row = {key: statistics.median(epoch[key] for epoch in epochs) for key in keys}
    stages = ' '.join(f'{row[stage]:9.3f}' if stage in row else f'{"-":>9}' for stage in STAGES)
    row['peak_host_bytes'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    where = f'{arguments.gpus} GPUs' if arguments.gpus else 'the CPU'
    print(f'{arguments.peer}: {arguments.graph} on {where}, fanouts {arguments.fanouts}, hidden {arguments.hidden}, '
          f'{arguments.batch_size} seeds per rank and step; median of {len(epochs)} epochs')
    print(f'{"epoch s":>9} {"seeds/s":>11} {"sample s":>9} {"gather s":>9} {"train s":>9} {"wait s":>8} {"hidden":>7} {"peak host":>10}')
    print(f'{row["seconds"]:9.3f} {row["seeds_per_second"]:11,.0f} {stages} {"-":>8} {"-":>7} {row["peak_host_bytes"] / 2**30:6.2f} GiB')
    if arguments.json:
        setup = {key: value for key, value in vars(arguments).items() if key != 'json'}
        pathlib.Path(arguments.json).write_text(json.dumps({'setup': setup, 'median': row, 'epochs': epochs}, indent=1) + '\n')


def require_peer(arguments):
    """Before processes start, so that what is missing is said once."""
    try:
        import torch

        import training
    except ImportError as error:
        sys.exit(skip(arguments.peer, f'{error}; pip install torch'))
    try:
        importlib.import_module(f'{arguments.peer}_peer').imports()
    except training.Missing as missing:
        sys.exit(skip(arguments.peer, missing))
    if arguments.gpus > torch.cuda.device_count():
        sys.exit(skip(arguments.peer, f'{arguments.gpus} GPUs were asked for, {torch.cuda.device_count()} are here'))


def skip(peer, reason):
    print(f'-- skipped: 1 of 1 cases: {peer}: {reason}')
    return SKIPPED


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    arguments = arguments_of(sys.argv[1:])
    require_peer(arguments)
    if arguments.gpus <= 1:
        os.environ.setdefault('MASTER_ADDR', 'localhost')
        os.environ.setdefault('MASTER_PORT', '12335')
        return work(0, arguments)
    import torch
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        os.environ.update(MASTER_ADDR='localhost', MASTER_PORT=str(probe.getsockname()[1]))
    torch.multiprocessing.spawn(work, args=(arguments,), nprocs=arguments.gpus)


if __name__ == '__main__':
    main()
