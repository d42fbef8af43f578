# SPDX-License-Identifier: Apache-2.0
"""What the options of training do: accumulation, losses that are not finite, class weights, schedules, and models."""
import gzip

import numpy as np

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=900,edges=9000,features=12,classes=4,seed=5'
ALL_NEIGHBOURS = ['--fanouts', '-1,-1', '--hidden', '16', '--dropout', '0', '--epochs', '2', '--eval-every', '0', '--log-every', '1',
                  '--seed', '3']


class Accumulation(e2e.Case):
    def test_equals_a_larger_batch(self):
        graph = self.build(SPEC, 2)
        for optimizer in ('sgd', 'adamw'):
            job = [*ALL_NEIGHBOURS, '--optimizer', optimizer, '--lr', '0.02']
            large, _ = self.train(graph, *job, '--batch-size', '60', ranks=2)
            for ranks, batch, accumulate in [(2, 20, 3), (1, 40, 3), (2, 60, 1)]:
                small, _ = self.train(graph, *job, '--batch-size', batch, '--accumulate', accumulate, ranks=ranks)
                expected, losses = e2e.step_losses(large), [r['loss'] for r in e2e.metrics(small, 'step')]
                self.assertEqual(len(losses), len(expected), 'one record an update')
                np.testing.assert_allclose(losses, expected, rtol=2e-4, err_msg=f'{optimizer}, {ranks} ranks, {accumulate} of {batch}')
            self.assertNotEqual(expected[0], expected[-1])


class NotFinite(e2e.Case):
    """The features of one training node are so large that sums overflow; without neighbors, only its own loss suffers."""
    JOB = ['--fanouts', '0,0', '--hidden', '512', '--batch-size', '6', '--epochs', '2', '--eval-every', '0', '--checkpoint-every', '0']

    def setUp(self):
        super().setUp()
        arrays = self.folder / 'arrays'
        done = self.run_program([e2e.BIN / 'strata-partition', 'convert', SPEC, f'npy:{arrays}'])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.seed = int(np.load(arrays / 'train.npy')[7])
        x = np.load(arrays / 'x.npy')
        x[self.seed] = np.finfo(np.float32).max
        np.save(arrays / 'x.npy', x)
        self.graph = self.build(f'npy:{arrays}', 2)

    def test_stops_and_names_the_culprit(self):
        for ranks, started in ((1, ''), (2, 'mpirun -n 2 ')):
            _, done = self.train(self.graph, *self.JOB, ranks=ranks, expect=1)
            self.assertRegex(done.stderr, r'the loss of epoch 1, step \d+ is not finite on rank [01] \(seeds [\d, ]+\)')
            seeds = done.stderr.split('(seeds ')[1].split(')')[0].split(', ')
            self.assertIn(str(self.seed), seeds)
            self.assertLessEqual(len(seeds), 6)
            self.assertIn('--on-nan skip', done.stderr)
            self.assertEqual(done.stderr.count(f'strata-doctor may find more: {started}strata-doctor --graph {self.graph}'), 1, done.stderr)

    def test_skips_that_update_alone(self):
        output, _ = self.train(self.graph, *self.JOB, '--on-nan', 'skip', ranks=2)
        self.assertEqual([record['skipped_updates'] for record in e2e.metrics(output, 'epoch')], [1, 1])
        for record in e2e.metrics(output, 'epoch'):
            self.assertIsNotNone(record['loss'])

    def test_skipping_resumes_bit_for_bit(self):
        whole, _ = self.train(self.graph, *self.JOB, '--on-nan', 'skip', '--checkpoint-every', '1')
        first, _ = self.train(self.graph, *self.JOB, '--on-nan', 'skip', '--checkpoint-every', '1', '--epochs', '1')
        self.train(self.graph, *self.JOB, '--on-nan', 'skip', '--checkpoint-every', '1', '--resume', output=first)
        self.assertEqual((whole / 'checkpoint.safetensors').read_bytes(), (first / 'checkpoint.safetensors').read_bytes())


class SeveralLabels(e2e.Case):
    """Nodes with sets of classes: those whose feature direction they lie along."""
    NODES, CLASSES = 700, 35
    JOB = ['--loss', 'bce', '--fanouts', '-1,-1', '--hidden', '64', '--dropout', '0', '--batch-size', '60', '--epochs', '12', '--lr', '0.01',
           '--metric', 'roc_auc', '--log-every', '1', '--seed', '3']

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(4)
        features = random.normal(size=(self.NODES, 16)).astype(np.float32)
        self.labels = (features @ random.normal(size=(16, self.CLASSES)) > 2).astype(float)
        self.labels[5] = np.nan   # nobody knows; not in the training split
        self.test = np.arange(3, self.NODES, 4)
        self.write('raw/num-node-list', [[self.NODES]], '%d')
        self.write('raw/edge', random.integers(0, self.NODES, size=(3000, 2)), '%d')
        self.write('raw/node-feat', features, '%.6g')
        self.write('raw/node-label', self.labels, '%g')
        self.write('split/random/train', np.concatenate([np.arange(0, self.NODES, 4), np.arange(2, self.NODES, 4)])[:, None], '%d')
        self.write('split/random/valid', np.arange(1, self.NODES, 4)[:, None], '%d')
        self.write('split/random/test', self.test[:, None], '%d')

    def write(self, name, table, text_format):
        path = self.folder / 'set' / f'{name}.csv.gz'
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, 'wt') as file:
            np.savetxt(file, table, delimiter=',', fmt=text_format)

    @staticmethod
    def area(scores, wanted):
        positive, negative = scores[wanted == 1][:, None], scores[wanted == 0][None, :]
        return ((positive > negative) + 0.5 * (positive == negative)).mean()

    def test_trains_and_scores(self):
        graph = self.build(f'ogb:{self.folder / "set"}', 2)
        runs = []
        for ranks, options in [(1, []), (2, []), (2, ['--ranks-per-machine', '1'])]:
            runs.append(self.train(graph, *self.JOB, '--global-batch-size', '60', *options, ranks=ranks)[0])
        output = runs[0]
        losses = e2e.step_losses(output)
        self.assertLess(losses[-1], 0.5 * losses[0])
        for other in runs[1:]:
            np.testing.assert_allclose(e2e.step_losses(other)[:10], losses[:10], rtol=1e-4)
        test = e2e.final(output)['test']
        logits, wanted = np.load(self.predict(output, graph))[self.test], self.labels[self.test]
        predicted = logits > 0
        self.assertAlmostEqual(test['accuracy'], (predicted == wanted).mean(), places=4)
        both = predicted.sum(0) + wanted.sum(0)
        self.assertAlmostEqual(test['macro_f1'], (2 * (predicted * wanted).sum(0) / np.maximum(both, 1))[both > 0].mean(), places=4)
        areas = [self.area(logits[:, c], wanted[:, c]) for c in range(self.CLASSES) if 0 < wanted[:, c].sum() < len(self.test)]
        self.assertAlmostEqual(test['roc_auc'], np.mean(areas), places=4)
        self.assertGreater(test['roc_auc'], 0.8)
        self.assertAlmostEqual(test['loss'], (np.logaddexp(0, logits) - wanted * logits).mean(), places=4)

    def test_options_and_refusals(self):
        graph = self.build(f'ogb:{self.folder / "set"}', 2)
        output, _ = self.train(graph, *self.JOB, '--class-weights', 'balanced', '--eval-fanouts', '5,5', '--epochs', '2')
        self.assertGreater(e2e.final(output)['test']['roc_auc'], 0.5)
        _, done = self.train(graph, *self.JOB, '--loss', 'cross-entropy', expect=2)
        self.assertIn('--loss bce', done.stderr)
        done = self.run_program([e2e.BIN / 'strata-partition', 'verify', graph])
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)


class Options(e2e.Case):
    def test_every_option_trains(self):
        graph = self.build(SPEC, 1)
        base = ['--fanouts', '5,5', '--hidden', '16', '--batch-size', '50', '--epochs', '8', '--lr', '0.01']
        for options in [['--loss', 'bce'], ['--class-weights', 'balanced'], ['--class-weights', '1,2,0.5,1'],
                        ['--label-smoothing', '0.1', '--clip-grad', '1', '--optimizer', 'adamw', '--weight-decay', '0.01'],
                        ['--lr-schedule', 'cosine', '--warmup-steps', '5'], ['--lr-schedule', 'step:20'],
                        ['--model', 'gat', '--attention-dropout', '0.2'], ['--model', 'gin', '--epochs', '16'],
                        ['--aggregate', 'max']]:
            output, _ = self.train(graph, *base, *options)
            losses = [record['loss'] for record in e2e.metrics(output, 'epoch')]
            self.assertLess(losses[-1], losses[0], options)
            self.assertGreater(e2e.final(output)['test']['accuracy'], 0.5, options)

    def test_refusals(self):
        for words, options in [(['3 numbers', '4 classes'], ['--class-weights', '1,2,3']), (['--class-weights', '"x"'], ['--class-weights', 'x']),
                               (['--accumulate'], ['--accumulate', '0']), (['--heads'], ['--model', 'gat', '--heads', '7']),
                               (['--aggregate max', 'gcn'], ['--model', 'gcn', '--aggregate', 'max']),
                               (['--lr-schedule', 'factor 2'], ['--lr-schedule', 'step:20:2']), (['--clip-grad'], ['--clip-grad', '-1'])]:
            _, done = self.train(SPEC, *options, expect=2)
            for word in words:
                self.assertIn(word, done.stderr)


if __name__ == '__main__':
    e2e.main()
