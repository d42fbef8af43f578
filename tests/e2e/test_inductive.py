# SPDX-License-Identifier: Apache-2.0
"""--inductive trains on the subgraph of the training nodes, and evaluates on the whole graph."""
import json
import shutil

import numpy as np

import strata_e2e as e2e
from test_evaluation import read_safetensors

SPEC = 'synthetic:kind=sbm,nodes=3000,edges=40000,features=24,classes=5,train=1200,valid=600,test=600,weights=lognormal,noise=1,seed=7'
JOB = ['--fanouts', '4,3', '--hidden', '16', '--global-batch-size', '120', '--epochs', '2', '--optimizer', 'sgd', '--lr', '0.1',
       '--log-every', '1', '--seed', '11']


class Inductive(e2e.Case):
    def setUp(self):
        super().setUp()
        done = self.run_program([e2e.BIN / 'strata-partition', 'convert', SPEC, f'npy:{self.folder / "whole"}'])
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.x = np.load(self.folder / 'whole' / 'x.npy')
        self.edges = np.load(self.folder / 'whole' / 'edge_index.npy')
        self.weights = np.load(self.folder / 'whole' / 'edge_weight.npy')
        train = np.load(self.folder / 'whole' / 'train.npy')
        self.trains = np.zeros(len(self.x), bool)
        self.trains[train] = True
        self.whole = self.build(f'npy:{self.folder / "whole"}', 1, 'whole-parts')

    def variant(self, name, **arrays):
        """The graph with other arrays, as one part."""
        folder = self.folder / name
        shutil.copytree(self.folder / 'whole', folder)
        for array, values in arrays.items():
            np.save(folder / f'{array}.npy', values)
        return folder

    def subgraph(self):
        """The same nodes, with the edges among training nodes."""
        inside = self.trains[self.edges].all(axis=0)
        self.assertGreater(inside.sum(), 1000)
        self.assertLess(inside.sum(), inside.size / 2)
        folder = self.variant('subgraph', edge_index=self.edges[:, inside], edge_weight=self.weights[inside])
        return self.build(f'npy:{folder}', 1, 'subgraph-parts')

    def losses(self, graph, *options, ranks=1):
        output, _ = self.train(graph, *JOB, *options, ranks=ranks)
        losses = e2e.step_losses(output)
        self.assertEqual(len(losses), 20)
        return np.array(losses)

    def test_losses_are_those_of_the_subgraph(self):
        subgraph, three = self.subgraph(), self.build(f'npy:{self.folder / "whole"}', 3, 'whole-parts3')
        asks, whole = ['--replicate-graph', 'off', '--halo-cache', '40KiB'], ['--replicate-graph', 'on']
        machines_3 = (three, 3, [*asks, '--ranks-per-machine', '1'])
        every_way = [(self.whole, 1, []), (three, 2, []), (three, 2, [*whole, '--ranks-per-machine', '1']), machines_3]
        for options, ways in ((['--dropout', '0.3'], every_way), (['--model', 'gcn', '--dropout', '0'], [machines_3]),
                              (['--model', 'gat', '--dropout', '0.2'], [machines_3]), (['--sampler', 'weighted', '--dropout', '0'], [machines_3]),
                              (['--fanouts=-1,-1', '--model', 'gin', '--dropout', '0'], [machines_3])):
            known = self.losses(subgraph, *options, '--eval-every', '0')
            self.assertGreater(abs(known - self.losses(self.whole, *options, '--eval-every', '0')).max(), 1e-3, options)
            for graph, ranks, machines in ways:
                found = self.losses(graph, '--inductive', *options, *machines, '--eval-every', '0', ranks=ranks)
                np.testing.assert_allclose(found, known, rtol=2e-4, err_msg=f'{options} {graph} {ranks} {machines}')

    def test_training_reads_no_other_node(self):
        """Whatever rows the others have: the same bits."""
        x = self.x.copy()
        x[~self.trains] = 1e4
        other = self.build(f'npy:{self.variant("others", x=x)}', 1, 'others-parts')
        for options in ([], ['--sampler', 'labor'], ['--model', 'gcn', '--replace']):
            found = [self.losses(graph, '--inductive', *options, '--eval-every', '0') for graph in (self.whole, other)]
            np.testing.assert_array_equal(found[0], found[1])
        self.assertGreater(abs(self.losses(self.whole, '--eval-every', '0') - self.losses(other, '--eval-every', '0')).max(), 1)

    def test_evaluation_sees_the_whole_graph(self):
        output, done = self.train(self.whole, *JOB, '--inductive')
        model = read_safetensors(output / 'model.safetensors')
        x = self.x.astype(float)
        counts = np.maximum(np.bincount(self.edges[1], minlength=len(x)), 1)[:, None]
        for layer in range(2):
            left, bias, right = (model[f'convs.{layer}.{name}'].astype(float) for name in ('lin_l.weight', 'lin_l.bias', 'lin_r.weight'))
            sums = np.zeros_like(x)
            np.add.at(sums, self.edges[1], x[self.edges[0]])
            x = sums / counts @ left.T + bias + x @ right.T
            x = np.maximum(x, 0) if layer == 0 else x
        np.testing.assert_allclose(np.load(self.predict(output, self.whole)), x, rtol=1e-3, atol=1e-3)
        test = np.load(self.folder / 'whole' / 'test.npy')
        labels = np.load(self.folder / 'whole' / 'y.npy')
        self.assertAlmostEqual(e2e.final(output)['test']['accuracy'], (x[test].argmax(1) == labels[test]).mean(), places=3)
        self.assertRegex(done.stdout + done.stderr, r'inductive: training sees [\d,]+ of [\d,]+ edges, those among 1,200 training nodes')
        self.assertTrue(e2e.metrics(output, 'run')[0]['inductive'])
        self.assertIn('inductive = true', (output / 'config.toml').read_text())

    def test_sampled_evaluation_sees_the_whole_graph(self):
        """Weights that hardly change score alike, whatever they were trained on."""
        options = ['--lr', '1e-9', '--epochs', '1', '--eval-fanouts', '3,3']
        scores = [e2e.final(self.train(self.whole, *JOB, *options, *more)[0])['test']['loss'] for more in ([], ['--inductive'])]
        self.assertAlmostEqual(scores[0], scores[1], places=5)

    def test_resumes_as_what_it_was(self):
        whole, _ = self.train(self.whole, *JOB, '--inductive', '--epochs', '3')
        output, _ = self.train(self.whole, *JOB, '--inductive', '--epochs', '1')
        _, done = self.train(self.whole, '--inductive=false', '--resume', output=output, expect=2)
        self.assertIn('--inductive', done.stderr)
        self.train(self.whole, '--epochs', '3', '--resume', output=output)
        self.assertEqual(e2e.step_losses(output), e2e.step_losses(whole))
        self.assertEqual((output / 'model.safetensors').read_bytes(), (whole / 'model.safetensors').read_bytes())

    def test_the_plan_counts_the_rows_of_the_subgraph(self):
        plans = []
        for options in ([], ['--inductive']):
            command = e2e.mpirun_command(1, ['--graph', self.whole, '--device', 'cpu', *JOB, *options, '--json'], 'strata-plan')
            done = self.run_program(command)
            self.assertEqual(done.returncode, 0, done.stderr)
            plans.append(json.loads(done.stdout.splitlines()[-1]))
        rows = [plan['rows']['nodes'] for plan in plans]
        self.assertLess(rows[1], 0.8 * rows[0])
        output, _ = self.train(self.whole, *JOB, '--inductive', '--eval-every', '0')
        epoch = e2e.metrics(output, 'epoch')[0]
        self.assertAlmostEqual(rows[1], epoch['input_rows'] / epoch['steps'], delta=0.1 * rows[1])

    def test_says_that_nothing_is_left(self):
        """Of a graph whose training nodes have no edges among them."""
        between = ~self.trains[self.edges].all(axis=0)
        folder = self.variant('between', edge_index=self.edges[:, between], edge_weight=self.weights[between])
        _, done = self.train(self.build(f'npy:{folder}', 1, 'between-parts'), *JOB, '--inductive', '--epochs', '1')
        self.assertIn('no edge has training nodes on both ends', done.stdout + done.stderr)


if __name__ == '__main__':
    e2e.main()
