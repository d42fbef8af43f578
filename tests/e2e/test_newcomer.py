# SPDX-License-Identifier: Apache-2.0
"""The way of somebody who holds a graph in memory: a Data object, its folder, parts, training, the curve, and the same logits in PyG."""
import importlib.util
import json
import re
import sys
import unittest

import numpy as np

import strata_e2e as e2e

try:
    import torch
    from torch_geometric.data import Data
except ImportError:
    torch = None

EXAMPLES = e2e.REPOSITORY / 'examples'


def communities(nodes=300, classes=3):
    """A graph whose edges mostly join nodes of one class, and whose features say the class with noise."""
    random = np.random.default_rng(1)
    y = np.arange(nodes) % classes
    source = random.integers(nodes, size=2400)
    same = random.random(2400) < 0.8
    destination = np.where(same, (source + classes * random.integers(nodes // classes, size=2400)) % nodes, random.integers(nodes, size=2400))
    edges = np.unique(np.sort(np.stack([source, destination])[:, source != destination], axis=0), axis=1)
    part = random.integers(4, size=nodes)
    return Data(x=torch.tensor(np.eye(classes)[y] + random.normal(size=(nodes, classes)), dtype=torch.float32),
                edge_index=torch.tensor(np.concatenate([edges, edges[::-1]], axis=1)), y=torch.tensor(y),
                train_mask=torch.tensor(part < 2), val_mask=torch.tensor(part == 2), test_mask=torch.tensor(part == 3))


@unittest.skipIf(torch is None, 'torch_geometric is not installed')
class Newcomer(e2e.Case):
    def run_script(self, *words):
        done = self.run_program([sys.executable, *words])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_the_way(self):
        data = communities()
        torch.save(data, self.folder / 'data.pt')
        self.run_script(EXAMPLES / 'from_pyg.py', self.folder / 'data.pt', self.folder / 'mine')
        spec = f'npy:{self.folder / "mine"}'

        told = self.run_program([e2e.BIN / 'strata-partition', 'info', '--json', spec])
        facts = json.loads(told.stdout)
        self.assertEqual(facts['num_nodes'], 300)
        self.assertTrue(facts['undirected'])
        self.assertEqual(facts['labels']['nodes_of_class'], [100, 100, 100])

        parts = self.build(spec, 2)
        run, _ = self.train(parts, '--model', 'sage', '--hidden', 16, '--fanouts', '5,5', '--epochs', 20, '--lr', 0.01,
                            '--batch-size', 32, ranks=2)
        self.assertGreater(e2e.final(run)['best']['test']['accuracy'] if 'best' in e2e.final(run) else
                           max(record['test']['accuracy'] for record in e2e.metrics(run, 'evaluation')), 0.8)

        self.draw_the_curve(run)
        self.compare_logits(run, data, np.load(self.predict(run, parts)))

    def draw_the_curve(self, run):
        if not all(importlib.util.find_spec(name) for name in ('pandas', 'matplotlib')):
            print('pandas or matplotlib is not installed: no curve is drawn')
            return
        self.run_script(EXAMPLES / 'learning_curve.py', run, self.folder / 'curve.png')
        self.assertEqual((self.folder / 'curve.png').read_bytes()[1:4], b'PNG')
        sys.path.insert(0, str(EXAMPLES))
        import learning_curve
        curve = learning_curve.table(run)
        self.assertEqual(len(curve), 20)
        self.assertLess(curve['loss'].iloc[-1], curve['loss'].iloc[0])
        self.assertIn('valid', curve)

    def compare_logits(self, run, data, written):
        """With the code of the documentation, as it stands there."""
        page = (e2e.REPOSITORY / 'docs/getting-started.md').read_text()
        code = next(block for block in re.findall(r'```python\n(.*?)```', page, re.DOTALL) if 'load_state_dict' in block)
        names = {'x': data.x, 'edge_index': data.edge_index}
        exec(re.sub(r'"[^"]*model\.safetensors"', repr(str(run / 'model.safetensors')), code), names)
        np.testing.assert_allclose(names['logits'].detach().numpy(), written, rtol=2e-4, atol=2e-5)


if __name__ == '__main__':
    e2e.main()
