# SPDX-License-Identifier: Apache-2.0
"""Links: which edges a graph has, from its other edges."""
import json
import pathlib

import numpy as np

import strata_e2e as e2e

NODES, STEPS = 400, 8
JOB = ['--task', 'link', '--fanouts', '4,3', '--hidden', '16', '--global-batch-size', '200', '--dropout', '0', '--lr', '0.02', '--seed', '3',
       '--eval-negatives', '20']


class Links(e2e.Case):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        groups = random.integers(8, size=NODES)
        ends = random.integers(NODES, size=(2, 40 * NODES))
        keep = (groups[ends[0]] == groups[ends[1]]) | (random.random(ends.shape[1]) < 0.02)
        pairs = np.unique(np.sort(ends[:, keep & (ends[0] != ends[1])], axis=0), axis=1)
        x = (np.eye(8)[groups] + random.normal(size=(NODES, 8))).astype(np.float32)
        self.num_pairs = pairs.shape[1]
        folder = self.folder / 'input'
        folder.mkdir()
        np.save(folder / 'edge_index.npy', np.concatenate([pairs, pairs[::-1]], axis=1))
        np.save(folder / 'x.npy', x)
        self.input = f'npy:{folder}'

    def test_trains_on_any_ranks(self):
        one, three = (self.build(self.input, parts) for parts in (1, 3))
        runs = [self.train(graph, *JOB, '--loss', 'bpr', '--negatives', '2', '--epochs', '1', '--log-every', '1', '--ranks-per-machine',
                           machine, ranks=ranks)[0] for graph, ranks, machine in [(one, 1, 0), (three, 3, 1), (one, 2, 0)]]
        losses = [e2e.step_losses(run) for run in runs]
        self.assertGreaterEqual(len(losses[0]), STEPS)
        for of_run, run in zip(losses[1:], runs[1:]):
            np.testing.assert_allclose(of_run, losses[0], rtol=1e-4)
            for split in ('valid', 'test'):
                scores, expected = e2e.final(run)[split], e2e.final(runs[0])[split]
                self.assertEqual(scores['nodes'], expected['nodes'])
                for name in ('mrr', 'hits_10', 'roc_auc'):
                    self.assertAlmostEqual(scores[name], expected[name], delta=0.01, msg=name)
        held = sum(e2e.final(runs[0])[split]['nodes'] for split in ('valid', 'test'))
        self.assertAlmostEqual(held / self.num_pairs, 0.2, delta=0.04)

    def test_learns_resumes_and_predicts(self):
        parts = self.build(self.input, 2)
        run, done = self.train(parts, *JOB, '--epochs', '3')
        done = self.run_program([e2e.BIN / 'strata-train', '--resume', run, '--epochs', '6'])
        self.assertEqual(done.returncode, 0, done.stderr)
        straight, _ = self.train(parts, *JOB, '--epochs', '6')
        final = e2e.final(run)['test']
        self.assertEqual(final, e2e.final(straight)['test'], 'a run goes on as if it had not ended')
        self.assertGreater(final['roc_auc'], 0.75)
        rows = np.load(self.predict(run, parts))
        self.assertEqual(rows.shape, (NODES, 16))
        done = self.run_program([e2e.BIN / 'strata-train', 'evaluate', run, '--graph', parts, '--device', 'cpu'])
        self.assertIn(f'{final["mrr"]:.4f}', done.stdout)

    def test_takes_the_split_of_parts(self):
        one, two = (self.build(self.input, parts, f'split{parts}', '--edge-split', '0.1,0.1', '--seed', '3') for parts in (1, 2))
        whole = self.build(self.input, 1)
        runs = [self.train(graph, *JOB, '--epochs', '1', '--log-every', '1', '--ranks-per-machine', machine, ranks=ranks)[0]
                for graph, ranks, machine in [(one, 1, 0), (two, 2, 1), (whole, 1, 0)]]
        for run in runs[1:]:
            np.testing.assert_allclose(e2e.step_losses(run), e2e.step_losses(runs[0]), rtol=1e-4)
        manifest = json.loads((pathlib.Path(one) / 'manifest.json').read_text())
        for run in runs:
            for split in ('valid', 'test'):
                self.assertEqual(e2e.final(run)[split]['nodes'], manifest['edge_splits'][split])
        done = self.run_program([e2e.BIN / 'strata-train', '--graph', one, '--task', 'link', '--edge-split', '0.2,0.1', '--output',
                                 self.folder / 'none'])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('the parts hold', done.stderr)

    def test_links_are_not_read_off_themselves(self):
        """Without features that tell the ends, a link is read off the edges that exclusion takes away."""
        folder = self.folder / 'blind'
        folder.mkdir()
        random = np.random.default_rng(2)
        np.save(folder / 'edge_index.npy', np.load(self.folder / 'input/edge_index.npy'))
        np.save(folder / 'x.npy', random.normal(size=(NODES, 32)).astype(np.float32))
        parts = self.build(f'npy:{folder}', 1, 'blind_parts')
        scores = {}
        for exclude in ('off', 'reverse'):
            run, done = self.train(parts, *JOB[:2], '--fanouts=-1', '--hidden', '32', '--global-batch-size', '200', '--dropout', '0', '--lr',
                                   '0.02', '--epochs', '6', '--exclude', exclude)
            scores[exclude] = e2e.metrics(run, 'epoch')[-1]['train_accuracy']
        self.assertGreater(scores['off'], scores['reverse'], 'exclusion takes away what gives training links away')

    def test_refuses_what_is_not_meant(self):
        for options, words in [(['--task', 'link', '--loss', 'mse'], '--loss mse is none of links'), (['--negatives', '3'], 'has no effect'),
                               (['--task', 'link', '--edge-split', '0.5'], 'are no shares')]:
            done = self.run_program([e2e.BIN / 'strata-train', '--graph', 'synthetic:nodes=50', '--output', self.folder / 'none', *options])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == '__main__':
    e2e.main()
