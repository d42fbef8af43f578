# SPDX-License-Identifier: Apache-2.0
"""Numbers of nodes: from arrays through parts and training to predictions in their own units."""
import json

import numpy as np

import strata_e2e as e2e

NODES, EDGES, STEPS = 600, 3000, 12
JOB = ['--loss', 'mse', '--fanouts', '4,3', '--hidden', '24', '--global-batch-size', '90', '--dropout', '0', '--lr', '0.02', '--seed', '3']


class Regression(e2e.Case):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        edges = random.integers(NODES, size=(2, EDGES))
        x = random.normal(size=(NODES, 6)).astype(np.float32)
        sums, degrees = np.zeros(NODES), np.zeros(NODES)
        np.add.at(sums, edges[1], x[edges[0], 0])
        np.add.at(degrees, edges[1], 1)
        income = 50000 + 20000 * (x[:, 1] + sums / np.maximum(degrees, 1))
        self.targets = np.stack([income, 0.01 * x[:, 2] - 3], axis=1).astype(np.float32)
        self.targets[::7, 0] = np.nan
        self.targets[::35] = np.nan  # no label at all
        order = random.permutation(np.flatnonzero(~np.isnan(self.targets).all(axis=1)))
        self.split = {'train': order[:360], 'valid': order[360:460], 'test': order[460:]}
        self.input = self.folder / 'input'
        self.input.mkdir()
        for name, array in {'edge_index': edges, 'x': x, 'targets': self.targets, **self.split}.items():
            np.save(self.input / f'{name}.npy', array)

    def program(self, name, *arguments, expect=0):
        done = self.run_program([e2e.BIN / name, *arguments])
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout)
        return done

    def expected(self, predicted):
        """rmse, mae and r2 of the test nodes, as their names say."""
        predicted, target = predicted[self.split['test']].astype(float), self.targets[self.split['test']].astype(float)
        error = predicted - target
        spread = target - np.nanmean(target, axis=0)
        return {'rmse': np.sqrt(np.nanmean(error**2)), 'mae': np.nanmean(abs(error)),
                'r2': np.mean(1 - np.nansum(error**2, axis=0) / np.nansum(spread**2, axis=0))}

    def test_trains_on_any_ranks_and_predicts_in_units(self):
        one, three = (self.build(f'npy:{self.input}', parts) for parts in (1, 3))
        runs = [self.train(graph, *JOB, '--epochs', '3', '--log-every', '1', '--ranks-per-machine', machine, ranks=ranks)[0]
                for graph, ranks, machine in [(one, 1, 0), (three, 3, 1), (one, 2, 0)]]
        losses = [e2e.step_losses(run) for run in runs]
        self.assertEqual([len(of_run) for of_run in losses], [STEPS] * 3)
        for of_run, run in zip(losses[1:], runs[1:]):
            np.testing.assert_allclose(of_run, losses[0], rtol=1e-4)
            self.assertAlmostEqual(e2e.final(run)['test']['r2'], e2e.final(runs[0])['test']['r2'], delta=1e-3)
        self.assertEqual({record['train_accuracy'] for record in e2e.metrics(runs[0], 'epoch')}, {None})

        self.program('strata-train', '--resume', runs[0], '--epochs', '20')
        straight, done = self.train(one, *JOB, '--epochs', '20')
        self.assertIn('2 targets', done.stdout)
        final = e2e.final(runs[0])
        self.assertEqual(final['test'], e2e.final(straight)['test'], 'a run goes on as if it had not ended')
        self.assertGreater(final['test']['r2'], 0.9)
        predicted = np.load(self.predict(runs[0], three, ranks=2))
        for name, wanted in self.expected(predicted).items():
            self.assertAlmostEqual(final['test'][name], wanted, delta=1e-4 * wanted, msg=name)
        columns = e2e.metrics(runs[0], 'targets')[-1]['columns']
        self.assertEqual([column['nodes'] for column in columns], list((~np.isnan(self.targets[self.split['test']])).sum(0)))

        raw, _ = self.train(one, *JOB[2:], '--loss', 'huber', '--scale-targets', 'off', '--metric', 'r2', '--epochs', '1')
        self.assertLess(e2e.final(raw)['test']['r2'], 0, 'large numbers are not learned as they are')

    def test_parts_keep_targets(self):
        text = '\n'.join(['id,target', *(f'{v},{"" if np.isnan(t) else repr(float(t))}' for v, t in enumerate(self.targets[:, 0]))])
        (self.input / 'targets.npy').rename(self.folder / 'both.npy')
        (self.folder / 'income.csv').write_text(text + '\n')
        done = self.run_program([e2e.BIN / 'strata-partition', 'build', '--input', f'npy:{self.input}', '--targets',
                                 self.folder / 'income.csv', '--parts', '2', '--output', self.folder / 'parts'])
        self.assertEqual(done.returncode, 2, 'training nodes without a target')
        self.assertIn('has no label', done.stderr)
        parts = self.build(f'npy:{self.input}', 3, 'parts', '--targets', self.folder / 'both.npy')
        self.program('strata-partition', 'verify', parts)
        self.assertIn('2 targets', self.program('strata-partition', 'info', parts).stdout)
        (self.folder / 'both.npy').rename(self.input / 'targets.npy')
        done = self.program('strata-partition', 'info', f'npy:{self.input}')
        self.assertRegex(done.stdout, r'\n0 +514 +[45]\d{4}')
        self.assertNotIn('not read', done.stderr)
        self.program('strata-partition', 'repartition', parts, '--parts', '2', '--output', self.folder / 'two')
        self.program('strata-partition', 'convert', self.folder / 'two', f'npy:{self.folder / "back"}')
        np.testing.assert_array_equal(np.load(self.folder / 'back/targets.npy'), self.targets)
        manifests = [json.loads((self.folder / name / 'manifest.json').read_text()) for name in ('parts', 'two')]
        self.assertEqual(manifests[0]['graph_digest'], manifests[1]['graph_digest'])
        train = self.targets[self.split['train']].astype(float)
        for scale, column in zip(manifests[0]['labels']['targets'], train.T):
            np.testing.assert_allclose([scale['mean'], scale['deviation']], [np.nanmean(column), np.nanstd(column)], rtol=1e-9)

    def test_refuses_what_is_not_meant(self):
        parts = self.build(f'npy:{self.input}', 1)
        for options, words in [([], 'has targets of regression'), (['--loss', 'mse', '--metric', 'accuracy'], '--metric accuracy is no score'),
                               (['--metric', 'r2'], '--metric r2 is no score'), (['--loss', 'mae', '--label-smoothing', '0.1'], 'has no effect')]:
            done = self.program('strata-train', '--graph', parts, '--output', self.folder / 'none', *options, expect=2)
            self.assertIn(words, done.stderr)
        done = self.program('strata-train', '--graph', 'synthetic:kind=sbm,nodes=300,edges=900,features=4,classes=2', '--loss', 'mse', expect=2)
        self.assertIn('needs targets of regression', done.stderr)
        np.save(self.input / 'y.npy', np.zeros(NODES, int))
        done = self.program('strata-partition', 'info', f'npy:{self.input}', expect=2)
        self.assertIn('both y.npy and targets.npy', done.stderr)


if __name__ == '__main__':
    e2e.main()
