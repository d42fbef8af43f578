#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots of the host stratum's rate from what benchmark_gather --json wrote.

    plot.py [--threads FILE] [--shares FILE] [--sizes FILE...] --out DIR

--threads: runs of several --threads               -> DIR/gather-threads.svg
--shares:  runs of several --shares                -> DIR/gather-shares.svg
--sizes:   a file for each size of the host table  -> DIR/gather-sizes.svg

Each size is the number in the file's name, in GiB: size32.json. Needs matplotlib; nothing else of Strata does.
"""
import argparse
import json
import pathlib
import re
import sys

try:
    import matplotlib
except ImportError:
    sys.exit('plot.py needs matplotlib: python3 -m venv VENV && VENV/bin/pip install matplotlib, then VENV/bin/python plot.py ...')
matplotlib.use('svg')
from matplotlib import pyplot  # noqa: E402 - the backend is chosen before

GIGA = 1e9
SIZE = (6.4, 3.6)  # inches, of one panel
BLUE, ORANGE, GREEN = '#0072b2', '#d55e00', '#009e73'
PATH_COLORS = {'zero-copy': GREEN, 'threads': ORANGE, 'both': BLUE}
ORDER_STYLES = {'random': {'linestyle': '-', 'marker': 'o'}, 'sorted': {'linestyle': '--', 'marker': 's'}}


def read(file):
    """The JSON of one benchmark run, its results those of the host stratum."""
    run = json.loads(pathlib.Path(file).read_text())
    run['results'] = [result for result in run['results'] if result['where'] == 'host']
    if not run['results']:
        sys.exit(f'{file} has no results of the case "host"')
    return run


def path_of(result):
    """'both' of 'both, 15 threads, 0.35'."""
    return result['how'].split(',')[0]


def threads_of(result):
    found = re.search(r'(\d+) threads', result['how'])
    return int(found[1]) if found else None


def share_of(result):
    found = re.search(r', (\d\.\d+)', result['how'])
    return float(found[1]) if found else None


def gib_of(file):
    found = re.search(r'\d+(\.\d+)?', pathlib.Path(file).stem)
    if not found:
        sys.exit(f'{file}: the name has no number that could be the size of the table in GiB')
    return float(found[0])


def host_limit(run):
    return run['limits']['host_to_device'] / GIGA


def series(points, key):
    """[(key, xs, ys)] of points (x, result), in the order in which the keys appear; x ascends."""
    groups = {}
    for x, result in points:
        groups.setdefault(key(result), []).append((x, result['bytes_per_second'] / GIGA))
    return [(name, *zip(*sorted(group))) for name, group in groups.items()]


def finish(panel, limit, x_label, title):
    panel.axhline(limit, color='0.45', linewidth=1)
    panel.annotate(f'host-to-device copy {limit:.1f}', (0.99, limit), xycoords=('axes fraction', 'data'), xytext=(0, 3),
                   textcoords='offset points', color='0.35', fontsize=8, ha='right')
    panel.set(xlabel=x_label, ylim=(0, limit * 1.12))
    panel.set_title(title, fontsize=10)
    panel.grid(color='0.9', linewidth=0.8)
    panel.spines[['top', 'right']].set_visible(False)


def save(figure, file):
    # The same results give the same file.
    figure.savefig(file, metadata={'Date': None}, bbox_inches='tight', facecolor='white')
    pyplot.close(figure)
    # matplotlib ends some lines of a path with a space.
    file.write_text('\n'.join(line.rstrip() for line in file.read_text().splitlines()) + '\n')
    print(file)


def one_panel():
    figure, panel = pyplot.subplots(figsize=SIZE)
    panel.set_ylabel('useful GB/s')
    return figure, panel


def plot_threads(file, folder):
    run = read(file)
    points = [(threads_of(result), result) for result in run['results'] if path_of(result) != 'zero-copy']
    lengths = {result['row_bytes'] for _, result in points}
    if len(lengths) != 1:
        sys.exit(f'{file} has rows of {sorted(lengths)} bytes; run it with one of --host-row-bytes')
    figure, panel = one_panel()
    for (path, order), xs, ys in series(points, lambda result: (path_of(result), result['order'])):
        panel.plot(xs, ys, color=PATH_COLORS[path], label=f'{path}, {order} ids', markersize=4, **ORDER_STYLES[order])
    panel.set_xlim(left=0)
    finish(panel, host_limit(run), 'CPU threads of the rank', f'host rows of {lengths.pop()} bytes')
    panel.legend(fontsize=8, frameon=False)
    save(figure, folder / 'gather-threads.svg')


def plot_shares(file, folder):
    run = read(file)
    points = [(share_of(result), result) for result in run['results'] if share_of(result) is not None]
    if not points:
        sys.exit(f'{file} has no results with a given share; run it with --host-paths both --shares 0.2,0.5,1')
    colors = dict(zip(sorted({result['row_bytes'] for _, result in points}), (ORANGE, BLUE, GREEN)))
    figure, panel = one_panel()
    for (length, order), xs, ys in series(points, lambda result: (result['row_bytes'], result['order'])):
        panel.plot(xs, ys, color=colors[length], label=f'{length} B, {order} ids', markersize=4, **ORDER_STYLES[order])
    threads = {threads_of(result) for _, result in points}
    finish(panel, host_limit(run), 'share of the rows that the threads take',
           f'threads and zero copy together, {", ".join(map(str, sorted(threads)))} threads')
    panel.legend(fontsize=8, frameon=False)
    save(figure, folder / 'gather-shares.svg')


def plot_sizes(files, folder):
    runs = {gib_of(file): read(file) for file in files}
    points = [(gib, result) for gib, run in sorted(runs.items()) for result in run['results']]
    lengths = sorted({result['row_bytes'] for _, result in points})
    figure, panels = pyplot.subplots(1, len(lengths), figsize=(4.6 * len(lengths), SIZE[1]), sharey=True, squeeze=False)
    for panel, length in zip(panels[0], lengths):
        of_length = [point for point in points if point[1]['row_bytes'] == length]
        for (path, order), xs, ys in series(of_length, lambda result: (path_of(result), result['order'])):
            panel.plot(xs, ys, color=PATH_COLORS[path], label=f'{path}, {order} ids', markersize=4, **ORDER_STYLES[order])
        panel.set_xscale('log', base=2)
        panel.set_xticks(sorted(runs), [f'{gib:g}' for gib in sorted(runs)])
        limit = max(host_limit(run) for run in runs.values())
        finish(panel, limit, 'GiB of the host table', f'host rows of {length} bytes')
    panels[0][0].set_ylabel('useful GB/s')
    figure.tight_layout()
    lines, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(lines, labels, loc='upper center', bbox_to_anchor=(0.5, 0), ncols=len(lines), fontsize=8, frameon=False)
    save(figure, folder / 'gather-sizes.svg')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--threads')
    parser.add_argument('--shares')
    parser.add_argument('--sizes', nargs='+', default=[])
    parser.add_argument('--out', type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    if not (arguments.threads or arguments.shares or arguments.sizes):
        parser.error('give --threads, --shares or --sizes')
    matplotlib.rcParams.update({'svg.fonttype': 'none', 'svg.hashsalt': 'strata', 'font.family': 'sans-serif'})
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.threads:
        plot_threads(arguments.threads, arguments.out)
    if arguments.shares:
        plot_shares(arguments.shares, arguments.out)
    if arguments.sizes:
        plot_sizes(arguments.sizes, arguments.out)


if __name__ == '__main__':
    main()
