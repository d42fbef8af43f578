# SPDX-License-Identifier: Apache-2.0
"""Graphs that people hold in memory or in files of other programs: written by the examples, built, and described."""
import importlib
import importlib.util
import json
import re
import sys
import unittest

import numpy as np

import strata_e2e as e2e

sys.path.insert(0, str(e2e.REPOSITORY / 'examples'))


def example(name, package):
    """The example, or None where the package that it is about is not installed."""
    try:
        importlib.import_module(package)
        return importlib.import_module(name)
    except ImportError:
        return None


FROM_PYG = example('from_pyg', 'torch_geometric')
FROM_DGL = example('from_dgl', 'dgl')
FROM_NETWORKX = example('from_networkx', 'networkx')
FROM_PARQUET = example('from_parquet', 'pyarrow')
SCIPY = importlib.util.find_spec('scipy')


class Inputs(e2e.Case):
    def facts(self, spec, *options):
        parts = self.build(spec, 2, 'parts', '--method', 'random', '--force', *options)
        return json.loads(self.run_program([e2e.BIN / 'strata-partition', 'info', '--json', parts]).stdout)

    def expect(self, facts, **wanted):
        self.assertEqual({name: facts[name] for name in wanted}, wanted)

    @unittest.skipIf(FROM_PYG is None, 'torch_geometric is not installed')
    def test_pyg(self):
        import torch
        from torch_geometric.data import Data, HeteroData
        torch.manual_seed(1)
        nodes = 50
        masks = torch.nn.functional.one_hot(torch.arange(nodes) % 3).bool()
        data = Data(x=torch.randn(nodes, 6), edge_index=torch.randint(nodes, (2, 300)), y=torch.randint(4, (nodes,)),
                    edge_weight=torch.rand(300), train_mask=masks[:, 0], val_mask=masks[:, 1],
                    test_mask=torch.stack([masks[:, 2], masks[:, 1]], 1))
        FROM_PYG.save(data, self.folder / 'pyg', split=0)
        facts = self.facts(f'npy:{self.folder / "pyg"}', '--duplicates', 'keep')
        self.expect(facts, num_nodes=nodes, num_edges=300, edge_weights=True, classes=4, undirected=False,
                    splits={'train': 17, 'valid': 17, 'test': 16})
        self.assertEqual(facts['features']['cols'], 6)
        torch.save(data, self.folder / 'data.pt')
        done = self.run_program([sys.executable, e2e.REPOSITORY / 'examples/from_pyg.py', self.folder / 'data.pt', self.folder / 'again', '0'])
        self.assertEqual(done.returncode, 0, done.stderr)
        for file in (self.folder / 'pyg').iterdir():
            np.testing.assert_array_equal(np.load(file), np.load(self.folder / 'again' / file.name))
        self.assertRaises(ValueError, FROM_PYG.save, HeteroData(), self.folder / 'hetero')
        done = self.run_program([sys.executable, e2e.REPOSITORY / 'examples/from_pyg.py', self.folder / 'data.pt', self.folder / 'again', '1'])
        self.assertEqual(done.returncode, 1)
        self.assertIn('again exists and is not empty', done.stderr)

    @unittest.skipIf(FROM_DGL is None, 'dgl is not installed')
    def test_dgl(self):
        import dgl
        import torch
        graph = dgl.rand_graph(40, 200)
        graph.ndata.update(feat=torch.randn(40, 3), label=torch.arange(40) % 5, train_mask=torch.arange(40) < 20)
        graph.edata['weight'] = torch.rand(200)
        FROM_DGL.save(graph, self.folder / 'dgl')
        self.expect(self.facts(f'npy:{self.folder / "dgl"}', '--duplicates', 'keep'), num_nodes=40, num_edges=200, edge_weights=True,
                    classes=5, splits={'train': 20, 'valid': 0, 'test': 0})

    @unittest.skipIf(FROM_NETWORKX is None, 'networkx is not installed')
    def test_networkx(self):
        import networkx as nx
        graph = nx.karate_club_graph()   # has weights
        for node in graph:
            graph.nodes[node].update(x=[float(node), 1.0], y=int(graph.nodes[node]['club'] == 'Officer'),
                                     split=('train', 'valid', 'test')[node % 3])
        FROM_NETWORKX.save(graph, self.folder / 'karate')
        self.expect(self.facts(f'npy:{self.folder / "karate"}'), num_nodes=34, num_edges=156, edge_weights=True, undirected=True,
                    classes=2, splits={'train': 12, 'valid': 11, 'test': 11})
        nx.write_graphml(nx.DiGraph([('a', 'b'), ('b', 'c')]), self.folder / 'g.graphml')
        done = self.run_program([sys.executable, e2e.REPOSITORY / 'examples/from_networkx.py', self.folder / 'g.graphml', self.folder / 'g'])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.expect(self.facts(f'npy:{self.folder / "g"}'), num_nodes=3, num_edges=2, undirected=False)
        self.assertEqual((self.folder / 'g' / 'names.txt').read_text(), 'a\nb\nc\n')

    def write_tables(self, name, nodes=None, **edges):
        import pyarrow as pa
        import pyarrow.parquet as parquet
        folder = self.folder / name
        (folder / 'edges').mkdir(parents=True)
        table = pa.table(edges)
        half = len(table) // 2
        parquet.write_table(table.slice(0, half), folder / 'edges' / '0.parquet')
        parquet.write_table(table.slice(half), folder / 'edges' / '1.parquet')
        if nodes:
            parquet.write_table(pa.table(nodes), folder / 'nodes.parquet')
        return folder

    def from_parquet(self, tables, *options, expect=0):
        output = self.folder / f'{tables.name}-npy'
        done = self.run_program([sys.executable, e2e.REPOSITORY / 'examples/from_parquet.py', tables, output, *options])
        self.assertEqual(done.returncode, expect, done.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.glob(f'{tables.name}-npy*')), [] if expect else [output.name])
        self.said = done.stderr
        return output if expect == 0 else done.stderr

    @unittest.skipIf(FROM_PARQUET is None, 'pyarrow is not installed')
    def test_parquet(self):
        random = np.random.default_rng(1)
        names = [f'user {i}' for i in range(60)]
        sources, targets = random.integers(60, size=(2, 400))
        nodes = dict(id=names, label=np.arange(60) % 4, age=random.random(60), vector=[[i, 2.0 * i] for i in range(60)],
                     split=['train', 'val', 'test'] * 20)
        tables = self.write_tables('named', nodes, source=[names[i] for i in sources], target=[names[i] for i in targets],
                                   weight=random.random(400))
        output = self.from_parquet(tables)
        np.testing.assert_array_equal(np.load(output / 'edge_index.npy'), [sources, targets])
        np.testing.assert_allclose(np.load(output / 'x.npy')[:, 2], 2.0 * np.arange(60))
        self.assertEqual((output / 'names.txt').read_text().splitlines(), names)
        self.expect(self.facts(f'npy:{output}', '--duplicates', 'keep'), num_nodes=60, num_edges=400, edge_weights=True, classes=4,
                    splits={'train': 20, 'valid': 20, 'test': 20})
        turned = self.from_parquet(self.write_tables('turned', time=targets, dst=targets, src=sources))
        np.testing.assert_array_equal(np.load(turned / 'edge_index.npy'), [sources, targets])
        self.assertIn('edges: time is not read', self.said)
        numbered = self.from_parquet(self.write_tables('numbered', a=sources, b=targets), '--source', 'b', '--target', 'a')
        np.testing.assert_array_equal(np.load(numbered / 'edge_index.npy'), [targets, sources])

    @unittest.skipIf(FROM_PARQUET is None, 'pyarrow is not installed')
    def test_parquet_that_is_no_graph(self):
        good = dict(source=['a', 'b'], target=['b', 'a'])
        for name, words, tables in (
                ('unknown', 'c, which is no id of a node', dict(nodes=dict(id=['a', 'b']), source=['a', 'c'], target=['b', 'a'])),
                ('twice', "column 'id' has the same id twice", dict(nodes=dict(id=['a', 'a']), **good)),
                ('unnumbered', 'need a table of nodes', good),
                ('beyond', 'ids from 7 to 7, with 2 nodes', dict(nodes=dict(label=[0, 1]), source=[0, 7], target=[1, 1])),
                ('empty', 'has 1 empty fields', dict(source=[0, None], target=[1, 1])),
                ('ragged', 'different lengths', dict(nodes=dict(id=['a', 'b'], f=[[1.0], [1.0, 2.0]]), **good)),
                ('split', "has 'maybe'; known are train", dict(nodes=dict(id=['a', 'b'], split=['train', 'maybe']), **good)),
                ('column', 'has one column, source', dict(source=[0, 1]))):
            with self.subTest(name):
                self.assertIn(words, self.from_parquet(self.write_tables(name, **tables), expect=1))
        (self.folder / 'none').mkdir()
        self.assertIn('no edges.parquet', self.from_parquet(self.folder / 'none', expect=1))

    @unittest.skipIf(SCIPY is None, 'scipy is not installed')
    def test_scipy(self):
        from scipy import sparse
        rows, cols = np.array([0, 1, 2, 2]), np.array([1, 2, 0, 3])
        for form in 'csr', 'csc', 'coo':
            for name, values in ('ones', np.ones(4)), ('weights', np.array([1., 2, 3, 4])), ('bools', np.ones(4, bool)):
                file = self.folder / f'{form}-{name}.npz'
                sparse.save_npz(file, sparse.coo_matrix((values, (rows, cols)), shape=(5, 5)).asformat(form))
                self.expect(self.facts(f'npy:{file}'), num_nodes=5, num_edges=4, undirected=False, edge_weights=name == 'weights')
        sparse.save_npz(self.folder / 'dia.npz', sparse.eye(5).todia())
        done = self.run_program([e2e.BIN / 'strata-partition', 'info', f'npy:{self.folder / "dia.npz"}'])
        self.assertEqual(done.returncode, 2)
        self.assertIn('tocsr()', done.stderr)

    def test_the_documented_metadata_yaml(self):
        page = (e2e.REPOSITORY / 'docs/data.md').read_text()
        text, = re.findall(r'```yaml\n(.*?)```', page, re.DOTALL)
        folder = self.folder / 'set'
        (folder / 'data').mkdir(parents=True)
        (folder / 'metadata.yaml').write_text(text)
        nodes, = map(int, re.findall(r'num: (\d+)', text))
        arrays = {'edges': np.array([[0, 1, 2], [1, 2, 3]]), 'weight': np.ones(3, np.float32), 'feat': np.ones((nodes, 8), np.float32)}
        for first, split in enumerate(('train', 'valid', 'test')):
            arrays[f'{split}_seeds'] = np.array([first, first + 3])
            arrays[f'{split}_labels'] = np.array([0, 1])
        for name, array in arrays.items():
            np.save(folder / f'data/{name}.npy', array)
        self.assertEqual(sorted(re.findall(r'path: data/(\w+).npy', text)), sorted(arrays))
        self.expect(self.facts(f'graphbolt:{folder}'), num_nodes=nodes, num_edges=3, edge_weights=True,
                    splits={'train': 2, 'valid': 2, 'test': 2})


if __name__ == '__main__':
    e2e.main()
