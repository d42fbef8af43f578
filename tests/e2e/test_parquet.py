# SPDX-License-Identifier: Apache-2.0
"""Graphs in Parquet tables: the same parts as from arrays, in bounded memory, and refusals that name the place."""
import json
import re
import shutil
import unittest

import numpy as np

import strata_e2e as e2e

try:
    import pyarrow as pa
    import pyarrow.parquet as parquet
except ImportError:
    pa = None

PARTITION = e2e.BIN / 'strata-partition'
HAS_READER = (e2e.BIN.parent / 'lib' / 'libstrata_parquet.so').exists()
NODES, EDGES = 60, 400


@unittest.skipIf(pa is None, 'pyarrow is not installed')
@unittest.skipUnless(HAS_READER, 'built without Arrow')
class Tables(e2e.Case):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        self.names = [f'user {i}' for i in range(NODES)]
        self.ends = random.integers(NODES, size=(2, EDGES))
        self.weights = random.random(EDGES)
        self.labels = np.arange(NODES) % 4
        self.age = random.integers(0, 90, NODES)
        self.vectors = random.random((NODES, 5)).astype(np.float32)

    def write(self, path, table, **options):
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table(table), path, **options)

    def tables(self, name, edges, nodes=None):
        """A folder with the two tables, of which that of edges is two files."""
        folder = self.folder / name
        whole = pa.table(edges)
        half = len(whole) // 2
        self.write(folder / 'edges-00000.parquet', whole.slice(0, half), row_group_size=64)
        self.write(folder / 'edges-00001.parquet', whole.slice(half))
        if nodes is not None:
            self.write(folder / 'nodes.parquet', nodes, row_group_size=7)
        return folder

    def arrays(self, name, **arrays):
        folder = self.folder / 'arrays' / name
        folder.mkdir(parents=True)
        for file, array in arrays.items():
            np.save(folder / f'{file}.npy', array)
        return folder

    def expect_equal_parts(self, tables, arrays, *options):
        """Both are called the same, which is all that part files say of their origin."""
        self.assertEqual(tables.name, arrays.name)
        ours = self.build(f'parquet:{tables}', 3, 'ours', '--force', *options)
        theirs = self.build(f'npy:{arrays}', 3, 'theirs', '--force')
        self.assertEqual([file.name for file in sorted(theirs.glob('*.h5'))], [f'part-0000{part}.h5' for part in range(3)])
        for file in theirs.glob('*.h5'):
            self.assertEqual((ours / file.name).read_bytes(), file.read_bytes(), file.name)
        digests = [json.loads((parts / 'manifest.json').read_text())['graph_digest'] for parts in (ours, theirs)]
        self.assertEqual(*digests)
        return ours

    def splits(self):
        return {split: np.arange(first, NODES, 4) for first, split in enumerate(('train', 'valid', 'test'))}

    def test_names_lists_and_missing_values(self):
        """The fourth node of four is in no split, two ways to say so; one without a label is in none either."""
        sources, targets = ([self.names[node] for node in end] for end in self.ends)
        labels = self.labels.astype(object)
        labels[3] = None
        nodes = dict(id=self.names, label=pa.array(list(labels), pa.int8()), age=self.age, flag=[True] * NODES,
                     vector=pa.FixedSizeListArray.from_arrays(pa.array(self.vectors.ravel()), 5),
                     split=pa.array(['Train', 'val', 'test', None, 'train', 'valid', 'TEST', ''] * 7 + ['train', 'validation', 'test', 'none']).dictionary_encode())
        tables = self.tables('named', dict(source=pa.array(sources).dictionary_encode(), target=targets, weight=self.weights), nodes)
        labels[3] = -1
        arrays = self.arrays('named', edge_index=self.ends, edge_weight=self.weights, y=labels.astype(np.int64),
                             x=np.column_stack([self.age, self.vectors]).astype(np.float32), **self.splits())
        ours = self.expect_equal_parts(tables, arrays)
        self.assertEqual(ours.with_name('ours.ids.txt').read_text().splitlines(), self.names)
        self.expect_equal_parts(tables, arrays, '--memory', '80MiB')
        done = self.run_program([PARTITION, 'info', f'parquet:{tables}'])
        self.assertIn("nodes.parquet: not read: 'flag'", done.stderr)

    def test_columns_by_options_and_ids_that_are_numbers(self):
        ids = np.random.default_rng(2).permutation(10**12 + np.arange(NODES))
        classes = np.eye(4, dtype=np.int64)[self.labels] | np.roll(np.eye(4, dtype=np.int64), 1, 1)[self.age % 4]
        nodes = dict(number=ids, age=self.age.astype(np.uint16), income=self.vectors[:, 0].astype(np.float16), classes=list(classes),
                     unused=self.age)
        tables = self.folder / 'renamed'
        self.write(tables / 'links' / 'b.parquet', dict(to=ids[self.ends[1]], strength=self.weights, begin=ids[self.ends[0]]))
        self.write(tables / 'people.parquet' / 'part-0.parquet', nodes)   # a folder, as Spark writes
        self.write(tables / 'people.parquet' / '_hidden.parquet', dict(a=[1]))
        spec = self.folder / ('renamed,edge-table=links,node-table=people,source=begin,target=to,weight=strength,id=number,label=classes,'
                              'features=income+age')
        parts = self.build(f'parquet:{spec}', 3, 'ours')
        arrays = self.arrays('renamed', edge_index=self.ends, edge_weight=self.weights, y=classes,
                             x=np.column_stack([self.vectors[:, 0].astype(np.float16), self.age]).astype(np.float32))
        for file in self.build(f'npy:{arrays}', 3, 'theirs').glob('*.h5'):
            self.assertEqual((parts / file.name).read_bytes(), file.read_bytes(), file.name)
        self.assertEqual((self.folder / 'ours.ids.txt').read_text().splitlines(), [str(number) for number in ids])

    def test_edges_alone(self):
        tables = self.tables('edges', dict(first=self.ends[0].astype(np.int32), second=self.ends[1].astype(np.int32)))
        self.expect_equal_parts(tables, self.arrays('edges', edge_index=self.ends))
        more = json.loads(self.run_program([PARTITION, 'info', '--json', f'parquet:{tables},nodes=99']).stdout)
        self.assertEqual((more['num_nodes'], more['num_edges']), (99, len(set(zip(*self.ends)))))
        features = self.arrays('features', x=np.ones((77, 2), np.float32)) / 'x.npy'
        told = json.loads(self.run_program([PARTITION, 'info', '--json', f'parquet:{tables}', '--features', features]).stdout)
        self.assertEqual(told['num_nodes'], 77)
        done = self.run_program([PARTITION, 'convert', f'parquet:{tables}', f'npy:{self.folder / "again"}', '--duplicates', 'keep'])
        self.assertEqual(done.returncode, 0, done.stderr)
        pairs = np.load(self.folder / 'again' / 'edge_index.npy')
        self.assertEqual(sorted(zip(*pairs)), sorted(zip(*self.ends)))

    def test_memory_does_not_grow_with_row_groups(self):
        """Each table is one row group, and that of features larger than what may be resident."""
        nodes, edges, columns, limit = 150_000, 3_000_000, 200, 80 << 20
        random = np.random.default_rng(3)
        tables = self.folder / 'large'
        self.write(tables / 'edges.parquet', dict(zip(('src', 'dst'), random.integers(nodes, size=(2, edges)))), row_group_size=edges)
        features = pa.FixedSizeListArray.from_arrays(pa.array(random.random(nodes * columns, np.float32)), columns)
        self.write(tables / 'nodes.parquet', dict(feature=features), row_group_size=nodes)
        done = self.run_program([PARTITION, 'build', '--input', f'parquet:{tables}', '--parts', 2, '--method', 'random', '--memory', limit,
                                 '--output', self.folder / 'parts'])
        self.assertEqual(done.returncode, 0, done.stderr)
        peaks = re.findall(r'^\w+ .* ([\d.]+) MiB$', done.stdout, re.MULTILINE)
        self.assertEqual(len(peaks), 4, done.stdout)
        self.assertLess(max(map(float, peaks)), limit >> 20)

    def refuse(self, spec, *words, code=2):
        done = self.run_program([PARTITION, 'build', '--input', f'parquet:{spec}', '--parts', 2, '--output', self.folder / 'refused'])
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse((self.folder / 'refused').exists())

    def test_tables_that_are_no_graph(self):
        pair = dict(src=['a', 'b'], dst=['b', 'a'])
        numbers = dict(src=[0, 1], dst=[1, 0])
        ab = dict(id=['a', 'b'])
        for name, words, edges, nodes in (
                ('unknown', "edges-00001.parquet: row group 0, row 0, column 'src': 'c' is no id", dict(src=['a', 'c'], dst=['b', 'a']), ab),
                ('twice', "nodes.parquet: row group 0, row 1, column 'id': the id 'a' again, which node 0 has", pair, dict(id=['a', 'a'])),
                ('unnumbered', "column 'src' is of type string, but no table of nodes has such ids", pair, None),
                ('unlike', "column 'src' is of type int64, but the ids in", numbers, ab),
                ('beyond', "column 'src': id 7, but ids must be within [0, 2)", dict(src=[0, 7], dst=[1, 1]), dict(label=[0, 1])),
                ('negative', 'id -1, but ids must', dict(src=[0, -1], dst=[1, 1]), None),
                ('far', 'ids up to 9000000000 for 2 edges', dict(src=[0, 9 * 10**9], dst=[1, 1]), None),
                ('missing', "row group 0, row 0, column 'src': no value", dict(src=pa.array([0, None]), dst=[1, 1]), None),
                ('floats', "column 'src', read as sources, is of type double", dict(src=[0.0, 1.0], dst=[1, 1]), None),
                ('weight', "column 'weight': weight -1 is negative", dict(**numbers, weight=[1, -1]), None),
                ('column', ': 1 column\n', dict(src=[0, 1]), None),
                ('line', 'is no name of a node', pair, dict(id=['a\nb', 'b'])),
                ('ragged', "column 'f' has 3 values in 2 rows", numbers, dict(f=[[1.0], [1.0, 2.0]])),
                ('uneven', "column 'f': lists of different lengths, 1 and 2", numbers, dict(f=[[1.0], [1.0, 2.0, 3.0]])),
                ('absent', "column 'f': a list is missing", numbers, dict(f=[[1.0], None])),
                ('hole', "row group 0, row 1, column 'f': no value", numbers, dict(f=[[1.0, 2.0], [1.0, None]])),
                ('nan', "row group 0, row 1, column 'f': feature nan", numbers, dict(f=[1.0, np.nan])),
                ('words', "column 'label', read as labels, is of type string", numbers, dict(label=['x', 'y'])),
                ('regression', "row group 0, column 'label': label 0.5 in row 1", numbers, dict(label=[0, 0.5])),
                ('split', "row 1, column 'split': split 'maybe' is not known", numbers, dict(split=['train', 'maybe']))):
            with self.subTest(name):
                self.refuse(self.tables(name, edges, nodes), words)
        folder = self.tables('sound', numbers, dict(label=[0, 1], f=[1.0, 2.0]))
        for options, words in ((',source=scr', ("no column 'scr', which source= names", "Did you mean 'src'?")),
                               (',features=f+label', ("column 'label' would be read twice, as features too",)),
                               (',weight=src', ("column 'src' would be read twice, as weights too",)),
                               (',nodes=3', ('2 rows, but nodes=3',)),
                               (',node-table=none,label=label', ("no table 'none', but columns of it are named",)),
                               (',edge-table=none', ('neither none.parquet nor none-*.parquet',))):
            with self.subTest(options):
                self.refuse(f'{folder}{options}', *words)

    def test_files_that_do_not_fit(self):
        folder = self.tables('mixed', dict(src=[0, 1], dst=[1, 0]))
        self.write(folder / 'edges-00002.parquet', dict(src=['a'], dst=[1]))
        self.refuse(folder, "edges-00002.parquet: column 0 is 'src' of type string, but 'src' of type int64 in")
        self.write(folder / 'edges-00002.parquet', dict(src=[1]))
        self.refuse(folder, 'edges-00002.parquet: 1 column, but')
        (folder / 'edges-00002.parquet').write_bytes(b'PAR1 and no more')
        self.refuse(folder, 'edges-00002.parquet: ', 'Is it a Parquet file?')
        (folder / 'edges-00002.parquet').unlink()
        self.write(folder / 'edges.parquet', dict(src=[1], dst=[0]))
        self.refuse(folder, "the table 'edges' lies both in")

    def write_types(self, kind, write):
        """Users by name who follow each other and rate films by number, as tables that `write` puts into a folder of this kind."""
        folder = self.folder / kind / 'films'
        for name, table in (('nodes/user', dict(id=self.names, age=self.age, label=self.labels, split=['train', 'valid', 'test'] * 20)),
                            ('nodes/film', dict(length=self.age[:9], year=self.age[9:18])),
                            ('edges/user__follows__user', dict(source=[self.names[v] for v in self.ends[0]], target=[self.names[v] for v in self.ends[1]])),
                            ('edges/user__rates__film', dict(source=[self.names[v] for v in self.ends[0]], target=self.ends[1] % 9, weight=self.ends[0]))):
            write(folder / name, table)
        return folder

    def write_text(self, path, table):
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [','.join(table), *(','.join(str(value) for value in row) for row in zip(*table.values()))]
        path.with_suffix('.csv').write_text('\n'.join(lines) + '\n')

    def write_halves(self, path, table):
        whole = pa.table(table)
        for part, rows in enumerate((whole.slice(0, 5), whole.slice(5))):
            self.write(path / f'part-{part}.parquet', rows)

    def test_types_are_those_of_tables_of_text(self):
        text, single, halves = (self.write_types(kind, write) for kind, write in (
            ('text', self.write_text), ('single', lambda path, table: self.write(path.with_suffix('.parquet'), table)), ('halves', self.write_halves)))
        parts = [self.build(f'{spec},target=user,reverse', 2, f'parts of {spec[:3]}{i}', '--method', 'random')
                 for i, spec in enumerate((f'csv:{text}', f'parquet:{single}', f'parquet:{halves}'))]
        for ours in parts[1:]:
            for file in parts[0].glob('*.h5'):
                self.assertEqual((ours / file.name).read_bytes(), file.read_bytes(), file.name)
        types = json.loads((parts[1] / 'manifest.json').read_text())['types']
        self.assertEqual((types['nodes'], types['feature_cols'], len(types['relations'])), (['film', 'user'], [2, 1], 4))
        done = self.run_program([PARTITION, 'info', f'parquet:{single},target=film'])
        self.assertIn('target=', done.stderr + done.stdout)
        for key in ('id=id', 'edge-table=edges2', 'nodes=4'):
            self.refuse(f'{single},{key}', 'a table per type, but a key of one table', 'target=TYPE')
        (single / 'nodes' / 'film.parquet').rename(single / 'nodes' / 'movie.parquet')
        self.refuse(single, "'user__rates__film' is of the type 'film', which has no table", 'nodes/film.parquet')

    def test_a_damaged_page(self):
        """Its checksum finds it: the values themselves could be any."""
        folder = self.folder / 'damaged'
        table = dict(src=self.ends[0], dst=self.ends[1])
        self.write(folder / 'edges.parquet', table, row_group_size=100, use_dictionary=False, compression='none', write_page_checksum=True)
        metadata = parquet.read_metadata(folder / 'edges.parquet')
        chunk = metadata.row_group(2).column(1)
        content = bytearray((folder / 'edges.parquet').read_bytes())
        content[chunk.data_page_offset + chunk.total_compressed_size - 8] ^= 1
        (folder / 'edges.parquet').write_bytes(content)
        self.refuse(folder, "edges.parquet: row group 2, from row 0 on: column 'dst': ", 'Write or copy the file again')


class WithoutReader(e2e.Case):
    def test_says_what_to_install(self):
        """A program and Strata's library by themselves do not find that of Parquet, which lies beside it."""
        for file in ('bin/strata-partition', 'lib/libstrata.so'):
            (self.folder / file).parent.mkdir()
            shutil.copy(e2e.BIN.parent / file, self.folder / file)
        tables = self.folder / 'tables'
        tables.mkdir()
        (tables / 'edges.parquet').write_bytes(b'PAR1')
        done = self.run_program([self.folder / 'bin' / 'strata-partition', 'info', f'parquet:{tables}'])
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in ('Parquet cannot be read here', 'libstrata_parquet.so', 'launch/setup --parquet', 'from_parquet.py'):
            self.assertIn(word, done.stderr)


if __name__ == '__main__':
    e2e.main()
