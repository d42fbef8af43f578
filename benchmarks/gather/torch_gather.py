#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gathering rows on the CPU with torch.index_select and copying them to the GPU: what is done without zero copy.

    torch_gather.py [--gib 48] [--row-bytes 512] [--rows 300000] [--threads 0] [--json FILE]

Random rows of f32 into pinned memory, then a copy; `overlapped` copies one batch while the next is gathered. Medians of --runs.
Bytes are those of the gathered rows, once, as benchmark_gather counts them.
"""
import argparse
import json
import os
import statistics
import time

import torch

BATCHES = 4     # gathers of different rows, one after the other, are one measurement


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gib', type=float, default=48)
    parser.add_argument('--row-bytes', type=int, default=512)
    parser.add_argument('--rows', type=int, default=300000, help='gathered at once')
    parser.add_argument('--threads', type=int, default=0, help='0: all cores')
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--json')
    return parser.parse_args()


class Gather:
    def __init__(self, table, ids):
        self.table, self.ids = table, ids
        shape = (len(ids[0]), table.shape[1])
        self.pinned = [torch.empty(shape, pin_memory=True) for _ in range(2)]
        self.on_gpu = [torch.empty(shape, device='cuda') for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)]

    def gather(self, batch):
        torch.index_select(self.table, 0, self.ids[batch], out=self.pinned[batch % 2])

    def copy(self, batch):
        self.on_gpu[batch % 2].copy_(self.pinned[batch % 2], non_blocking=True)

    def gathers(self):
        for batch in range(BATCHES):
            self.gather(batch)

    def copies(self):
        for batch in range(BATCHES):
            self.copy(batch)
        torch.cuda.synchronize()

    def one_after_the_other(self):
        for batch in range(BATCHES):
            self.gather(batch)
            self.copy(batch)
            torch.cuda.synchronize()

    def overlapped(self):
        for batch in range(BATCHES):
            self.copied[batch % 2].synchronize()
            self.gather(batch)
            self.copy(batch)
            self.copied[batch % 2].record()
        torch.cuda.synchronize()


def seconds_of(work, runs):
    times = []
    for _ in range(runs + 1):     # the first warms up
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main():
    arguments = arguments_of()
    torch.set_num_threads(arguments.threads or len(os.sched_getaffinity(0)))
    cols = arguments.row_bytes // 4
    table = torch.empty((int(arguments.gib * 2**30) // arguments.row_bytes, cols))
    table.fill_(1)      # every page is there
    ids = [torch.randint(len(table), (arguments.rows,)) for _ in range(BATCHES)]
    gather = Gather(table, ids)
    moved = BATCHES * arguments.rows * arguments.row_bytes / 1e9
    cases = {'gather on the CPU': gather.gathers, 'copy': gather.copies, 'one after the other': gather.one_after_the_other,
             'overlapped': gather.overlapped}
    rates = {name: moved / seconds_of(work, arguments.runs) for name, work in cases.items()}
    print(f'{arguments.rows} random rows of {arguments.row_bytes} bytes of {arguments.gib:g} GiB, {torch.get_num_threads()} threads')
    for name, rate in rates.items():
        print(f'{name:>22} {rate:6.1f} GB/s')
    if arguments.json:
        with open(arguments.json, 'w') as file:
            json.dump({'threads': torch.get_num_threads(), 'row_bytes': arguments.row_bytes, 'rows': arguments.rows,
                       'gib': arguments.gib, 'gigabytes_per_second': rates}, file)


if __name__ == '__main__':
    main()
