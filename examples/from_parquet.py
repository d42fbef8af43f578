#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes Parquet tables of edges and nodes as a folder for `strata-partition build --input npy:DIR`. Needs pyarrow. Where Strata was
built with Arrow, `--input parquet:TABLES` reads them as they are.

usage: from_parquet.py TABLES DIR [--edges edges] [--nodes nodes] [--source NAME] [--target NAME] [--weight NAME]
                       [--id NAME] [--label NAME] [--split NAME] [--features NAME...]

TABLES has a table of edges and, if there is one, a table of nodes: a file edges.parquet, or a folder edges/ of files, or part files
edges-*.parquet. Sources and targets are the columns that --source and --target name, or `src` or `source` and `dst`, `target` or
`destination`, or the first two. A node's number is its row in the nodes' table; if that has an id column (`id`, `node` or `node_id`,
of integers or strings), edges are in these ids, and DIR/names.txt keeps them, one per line. Without nodes, ids must be the numbers
0 to N - 1. Columns that are called `weight`, `label` or `y`, and `split` (train, valid, test) are taken unless options say otherwise;
features are every other column of numbers, or lists of one length. Tables are read in pieces; in memory are one piece and the nodes' ids.
"""
import argparse
import pathlib
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

ROWS = 1 << 20   # of a piece
SPLITS = {'train': 'train', 'valid': 'valid', 'val': 'valid', 'validation': 'valid', 'test': 'test'}


def fail(text):
    raise SystemExit(f'from_parquet: {text}')


def open_table(folder, name):
    """The dataset of the files called `name`, or None."""
    folder = pathlib.Path(folder)
    inside = folder / name
    files = sorted(inside.glob('*.parquet')) if inside.is_dir() else sorted({*folder.glob(f'{name}.parquet'), *folder.glob(f'{name}-*.parquet')})
    try:
        return pa.dataset.dataset([str(file) for file in files], format='parquet') if files else None
    except (pa.ArrowInvalid, OSError) as error:
        fail(f'{folder}/{name}: {error}')


def pieces(table, columns):
    """Batches of rows, with the place of their first row."""
    begin = 0
    for batch in table.to_batches(columns=columns, batch_size=ROWS):
        yield begin, batch
        begin += batch.num_rows


def pick(table, asked, usual, what):
    """The column that was asked for, or one with a usual name, or None."""
    if asked and asked not in table.schema.names:
        fail(f"no column '{asked}' for {what}; there are {', '.join(table.schema.names)}")
    return asked or next((name for name in usual if name in table.schema.names), None)


def say_unread(table, read, what):
    unread = [name for name in table.schema.names if name not in read]
    if unread:
        print(f"from_parquet: {what}: {', '.join(unread)} {'is' if len(unread) == 1 else 'are'} not read", file=sys.stderr)


def numbers_of(column, what):
    if column.null_count:
        fail(f'{what} has {column.null_count} empty fields')
    return column.to_numpy(zero_copy_only=False)


class Ids:
    """Node ids as they stand in the tables, to numbers."""

    def __init__(self, nodes, column):
        self.count = nodes.count_rows() if nodes else None
        self.values = nodes.to_table(columns=[column]).column(0).combine_chunks() if column else None
        if self.values is not None and len(self.values.unique()) != len(self.values):
            fail(f"column '{column}' has the same id twice")

    def numbers(self, column, what):
        if self.values is None:
            if not pa.types.is_integer(column.type):
                fail(f'{what} is of type {column.type}; ids that are not numbers need a table of nodes with a column id')
            found = numbers_of(column, what).astype(np.int64)
            if found.size and (found.min() < 0 or (self.count is not None and found.max() >= self.count)):
                fail(f'{what} has ids from {found.min()} to {found.max()}, with {self.count} nodes and no id column among them')
            return found
        places = pc.index_in(column.cast(self.values.type), value_set=self.values)
        if places.null_count:
            unknown = column.filter(pc.is_null(places))[0]
            fail(f'{what} has {unknown}, which is no id of a node')
        return places.to_numpy(zero_copy_only=False)


def write_edges(edges, ids, options, folder):
    source = pick(edges, options.source, ['src', 'source'], 'edges') or edges.schema.names[0]
    target = pick(edges, options.target, ['dst', 'target', 'destination'], 'edges') or edges.schema.names[1]
    weight = pick(edges, options.weight, ['weight', 'edge_weight'], 'weights')
    say_unread(edges, (source, target, weight), 'edges')
    count = edges.count_rows()
    index = np.lib.format.open_memmap(folder / 'edge_index.npy', 'w+', np.int64, (2, count))
    weights = np.lib.format.open_memmap(folder / 'edge_weight.npy', 'w+', np.float32, (count,)) if weight else None
    for begin, batch in pieces(edges, [name for name in (source, target, weight) if name]):
        rows = slice(begin, begin + batch.num_rows)
        for row, name in enumerate((source, target)):
            index[row, rows] = ids.numbers(batch.column(name), f'edges: {name}')
        if weight:
            weights[rows] = numbers_of(batch.column(weight), f'edges: {weight}')


def feature_columns(nodes, options, taken):
    if options.features:
        return [pick(nodes, name, [], 'features') for name in options.features]
    kinds = {field.name: field.type.value_type if pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type) else field.type
             for field in nodes.schema}
    return [name for name, kind in kinds.items() if name not in taken and (pa.types.is_integer(kind) or pa.types.is_floating(kind))]


def rows_of(column, name):
    """A matrix: one column of numbers, or lists of one length."""
    if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        if column.null_count:
            fail(f'nodes: {name} has {column.null_count} empty fields')
        lengths = pc.list_value_length(column).unique()
        if len(lengths) != 1:
            fail(f'nodes: the lists of {name} have different lengths, {lengths[0]} and {lengths[1]} among them')
        return numbers_of(column.flatten(), f'nodes: {name}').reshape(len(column), -1).astype(np.float32)
    return numbers_of(column, f'nodes: {name}').astype(np.float32)[:, None]


def write_features(nodes, columns, folder):
    values = None
    for begin, batch in pieces(nodes, columns):
        rows = np.concatenate([rows_of(batch.column(name), name) for name in columns], axis=1)
        if values is None:
            values = np.lib.format.open_memmap(folder / 'x.npy', 'w+', np.float32, (nodes.count_rows(), rows.shape[1]))
        if rows.shape[1] != values.shape[1]:
            fail(f'nodes: rows of {rows.shape[1]} features after {begin} rows of {values.shape[1]}')
        values[begin:begin + len(rows)] = rows


def write_split(nodes, column, folder):
    names = pc.utf8_lower(nodes.to_table(columns=[column]).column(0).cast(pa.string())).to_pylist()
    unknown = set(names) - set(SPLITS) - {None, '', 'none'}
    if unknown:
        fail(f"nodes: {column} has '{sorted(unknown)[0]}'; known are train, valid and test")
    for split in sorted(set(SPLITS.values())):
        np.save(folder / f'{split}.npy', np.array([SPLITS.get(name) == split for name in names], bool))


def write_nodes(nodes, ids, columns, folder):
    say_unread(nodes, {columns['id'], columns['label'], columns['split'], *columns['features']}, 'nodes')
    np.save(folder / 'num_nodes.npy', np.int64(ids.count))
    if columns['label']:
        labels = numbers_of(nodes.to_table(columns=[columns['label']]).column(0).combine_chunks(), f"nodes: {columns['label']}")
        np.save(folder / 'y.npy', labels)
    if columns['split']:
        write_split(nodes, columns['split'], folder)
    if columns['features']:
        write_features(nodes, columns['features'], folder)
    if ids.values is not None:
        (folder / 'names.txt').write_text(''.join(f'{name}\n' for name in ids.values.to_pylist()))


def convert(options):
    edges, nodes = open_table(options.tables, options.edges), open_table(options.tables, options.nodes)
    if edges is None:
        fail(f'no {options.edges}.parquet, {options.edges}-*.parquet or {options.edges}/*.parquet in {options.tables}')
    if len(edges.schema.names) < 2:
        fail(f'the table of edges has one column, {edges.schema.names[0]}')
    columns = dict(id=None, label=None, split=None)
    if nodes is not None:
        columns = dict(id=pick(nodes, options.id, ['id', 'node', 'node_id'], 'ids'),
                       label=pick(nodes, options.label, ['label', 'y'], 'labels'),
                       split=pick(nodes, options.split, ['split'], 'splits'))
        columns['features'] = feature_columns(nodes, options, {name for name in columns.values() if name})
    folder = pathlib.Path(options.folder)
    unfinished = folder.with_name(f'{folder.name}.unfinished')
    unfinished.mkdir(parents=True)
    try:
        ids = Ids(nodes, columns['id'])
        write_edges(edges, ids, options, unfinished)
        if nodes is not None:
            write_nodes(nodes, ids, columns, unfinished)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tables')
    parser.add_argument('folder')
    parser.add_argument('--edges', default='edges')
    parser.add_argument('--nodes', default='nodes')
    for name in ('source', 'target', 'weight', 'id', 'label', 'split'):
        parser.add_argument(f'--{name}')
    parser.add_argument('--features', nargs='+')
    options = parser.parse_args()
    if pathlib.Path(options.folder).exists():
        fail(f'{options.folder} exists')
    convert(options)


if __name__ == '__main__':
    main()
