# SPDX-License-Identifier: Apache-2.0
"""What evaluation computes and tells: neighbors by weight, nodes without labels, and an end where a signal asks for it."""
import json
import signal
import subprocess

import numpy as np

import strata_e2e as e2e

STOPPED = 75


def read_safetensors(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], 'little')
    header = json.loads(raw[8:8 + size])
    header.pop('__metadata__', None)
    return {name: np.frombuffer(raw[8 + size:], dtype=np.float32, count=int(np.prod(t['shape'])), offset=t['data_offsets'][0])
            .reshape(t['shape']) for name, t in header.items()}


class WeightedGraph(e2e.Case):
    """A GraphBolt data set with weights of edges, some of them 0, and nodes without labels."""
    NODES, CLASSES, UNLABELLED = 120, 4, 7

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(11)
        self.weights = np.where(random.random((self.NODES, self.NODES)) < 0.1, random.exponential(size=(self.NODES, self.NODES)), 0)
        np.fill_diagonal(self.weights, 0)
        listed = self.weights > 0
        listed[3] = listed[:, 3] = False   # a node without neighbors
        listed[4, 5:30] = True             # edges of weight 0
        self.weights *= listed
        self.lists = [np.flatnonzero(row) for row in listed]   # in-neighbors: row v has the edges to v
        self.features = random.normal(size=(self.NODES, 6)).astype(np.float32)
        to, source = np.nonzero(listed)
        split = {'train': np.arange(0, self.NODES, 3), 'valid': np.arange(1, self.NODES, 3), 'test': np.arange(2, self.NODES, 3)}
        labels = random.integers(0, self.CLASSES, self.NODES)
        data = self.folder / 'set' / 'data'
        data.mkdir(parents=True)
        np.save(data / 'edges.npy', np.stack([source, to]))
        np.save(data / 'weight.npy', self.weights[to, source].astype(np.float32))
        np.save(data / 'feat.npy', self.features)
        labels[split['test'][:self.UNLABELLED]] = -1
        for name, nodes in split.items():
            np.save(data / f'{name}_seeds.npy', nodes)
            np.save(data / f'{name}_labels.npy', labels[nodes])
        sets = ''.join(f'''    {title}:
      - data:
          - {{name: seeds, format: numpy, path: data/{name}_seeds.npy}}
          - {{name: labels, format: numpy, path: data/{name}_labels.npy}}
''' for title, name in [('train_set', 'train'), ('validation_set', 'valid'), ('test_set', 'test')])
        (self.folder / 'set' / 'metadata.yaml').write_text(f'''dataset_name: weighted
graph:
  nodes:
    - num: {self.NODES}
  edges:
    - format: numpy
      path: data/edges.npy
  feature_data:
    - {{domain: edge, name: weight, format: numpy, path: data/weight.npy}}
feature_data:
  - domain: node
    name: feat
    format: numpy
    path: data/feat.npy
tasks:
  - name: node_classification
    num_classes: {self.CLASSES}
{sets}''')
        self.graph = self.build(f'graphbolt:{self.folder / "set"}', 2)

    def forward(self, model, shares):
        x = self.features.astype(float)
        for layer, count in enumerate(shares):
            left, bias, right = (model[f'convs.{layer}.{name}'].astype(float) for name in ('lin_l.weight', 'lin_l.bias', 'lin_r.weight'))
            x = (count / np.maximum(count.sum(1, keepdims=True), 1e-300)) @ x @ left.T + bias + x @ right.T
            if layer + 1 < len(shares):
                x = np.maximum(x, 0)
        return x

    def test_exact_evaluation_weighs_as_training_samples(self):
        alike = np.zeros_like(self.weights)
        for v, neighbors in enumerate(self.lists):
            alike[v, neighbors] = 1
        for sampler, fanouts, shares in [('uniform', '3,2', [alike, alike]), ('weighted', '3,2', [self.weights, self.weights]),
                                         ('weighted', '-1,2', [self.weights, alike])]:
            output, _ = self.train(self.graph, '--sampler', sampler, f'--fanouts={fanouts}', '--hidden', '8', '--epochs', '3', ranks=2)
            wanted = self.forward(read_safetensors(output / 'model.safetensors'), shares)
            np.testing.assert_allclose(np.load(self.predict(output, self.graph, ranks=2)), wanted, rtol=1e-4, atol=1e-4)

    def test_sampled_evaluation_is_that_of_any_number_of_ranks(self):
        for options in [['--sampler', 'weighted'], ['--sampler', 'labor-dependent']]:
            scores = []
            for ranks, more in [(1, []), (2, []), (2, ['--ranks-per-machine', '1'])]:
                output, _ = self.train(self.graph, '--fanouts', '3,2', '--eval-fanouts', '2,2', '--hidden', '8', '--epochs', '1', '--lr', '1e-9',
                                       '--global-batch-size', '8', *options, *more, ranks=ranks)
                scores.append(e2e.metrics(output, 'evaluation')[0]['valid'])
            for other in scores[1:]:
                self.assertEqual(other['accuracy'], scores[0]['accuracy'])
                self.assertAlmostEqual(other['loss'], scores[0]['loss'], places=5)

    def test_tells_once_how_many_nodes_have_no_label(self):
        output, done = self.train(self.graph, '--fanouts', '3,2', '--hidden', '8', '--epochs', '3', ranks=2)
        self.assertEqual(e2e.metrics(output, 'run')[0]['unlabelled'], {'train': 0, 'valid': 0, 'test': self.UNLABELLED})
        self.assertEqual((done.stderr + done.stdout).count(f'{self.UNLABELLED} of 40 test nodes have no label'), 1, done.stderr + done.stdout)
        self.assertEqual(e2e.final(output)['test']['nodes'], 40 - self.UNLABELLED)


class Stopped(e2e.Case):
    SPEC = 'synthetic:kind=sbm,nodes=150000,edges=4000000,features=64,classes=5,train=200,seed=3'
    JOB = ['--fanouts', '2,2,2', '--hidden', '256', '--batch-size', '50', '--epochs', '1', '--seed', '5']

    def stopped_in_evaluation(self, graph, output):
        """The exit code, 0 also if the evaluation was over before the signal came, and what was printed."""
        log = self.folder / 'stopped.log'
        with log.open('w') as stream:
            process = subprocess.Popen([str(word) for word in e2e.mpirun_command(2, ['--graph', graph, '--output', output, '--device', 'cpu', *self.JOB])],
                                       env=e2e.ENVIRONMENT, stdout=stream, stderr=subprocess.STDOUT)
        records = output / 'metrics.jsonl'
        e2e.wait_until(lambda: process.poll() is not None or (records.exists() and '"epoch",' in records.read_text()), log)
        process.send_signal(signal.SIGUSR1)
        process.wait(timeout=e2e.PATIENCE)
        return 0 if e2e.metrics(output, 'evaluation') else process.returncode, log.read_text()

    def test_a_signal_ends_an_evaluation(self):
        graph = self.build(self.SPEC, 2)
        whole, _ = self.train(graph, *self.JOB, ranks=2)
        stopped = self.folder / 'stopped'
        code, text = self.again_if_complete(stopped, lambda: self.stopped_in_evaluation(graph, stopped))
        self.assertEqual(code, STOPPED, text)
        self.assertEqual(e2e.metrics(stopped, 'evaluation'), [])
        self.train(graph, *self.JOB, '--resume', ranks=2, output=stopped)
        self.assertEqual([{**r, 'seconds': 0, 'time': 0} for r in e2e.metrics(stopped, 'evaluation')],
                         [{**r, 'seconds': 0, 'time': 0} for r in e2e.metrics(whole, 'evaluation')])
        self.assertEqual(e2e.final(whole)['test'], e2e.final(stopped)['test'])


if __name__ == '__main__':
    e2e.main()
