# SPDX-License-Identifier: Apache-2.0
"""Edges of several relations: knowledge graphs, targets of edges, and predictions for pairs."""
import numpy as np

import strata_e2e as e2e

ENTITIES, GROUPS = 120, 6
USERS, MOVIES = 60, 50


class Edges(e2e.Case):
    def agree(self, runs, scores, delta):
        losses = [e2e.step_losses(run) for run in runs]
        for of_run, run in zip(losses[1:], runs[1:]):
            np.testing.assert_allclose(of_run, losses[0], rtol=1e-4)
            for name in scores:
                self.assertAlmostEqual(e2e.final(run)['test'][name], e2e.final(runs[0])['test'][name], delta=delta, msg=name)
        self.assertGreater(len(losses[0]), 2)


class Knowledge(Edges):
    """Entities of groups: `like` joins those of a group, `before` those of a group with those of the next."""

    JOB = ['--task', 'link', '--learned-rows', '16', '--negative-ends', 'both', '--negatives', '8', '--eval-negatives', 'all', '--dropout',
           '0', '--seed', '1', '--log-every', '1', '--learned-lr', '0.05']

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        head, other = np.divmod(np.unique(random.integers(ENTITIES**2, size=6000)), ENTITIES)
        step = (other % GROUPS - head % GROUPS) % GROUPS
        lines = [f'{h}\t{"like" if s == 0 else "before"}\t{o}\n' for h, o, s in zip(head, other, step) if s < 2 and h != o]
        random.shuffle(lines)
        self.folder.joinpath('kg').mkdir()
        for name, part in (('train', lines[200:]), ('valid', lines[:100]), ('test', lines[100:200])):
            self.folder.joinpath(f'kg/{name}.txt').write_text(''.join(part))
        self.input = f'triples:{self.folder / "kg"},reverse'

    def test_rows_alone_on_any_ranks(self):
        one, three = (self.build(self.input, parts) for parts in (1, 3))
        job = [*self.JOB, '--model', 'none', '--decoder', 'rotate:4', '--loss', 'adversarial:0.5', '--global-batch-size', '128', '--lr', '0.05']
        runs = [self.train(graph, *job, '--epochs', '10', '--eval-every', '0', '--ranks-per-machine', machine, ranks=ranks)[0]
                for graph, ranks, machine in [(one, 1, 0), (three, 3, 1)]]
        self.agree(runs, ('mrr', 'hits_10'), 0.02)
        final = e2e.final(runs[0])
        self.assertEqual((final['valid']['nodes'], final['test']['nodes']), (100, 100))
        # Of the 20 of a group, the edges that are known do not count, and others rank as high: at random, hits_10 are 1 / 10, at best 3 / 4.
        self.assertGreater(final['test']['hits_10'], 0.3)
        groups = e2e.metrics(runs[0], 'links')[-1]['groups']
        self.assertEqual({(group['relation'].split('__')[1], group['negatives']) for group in groups},
                         {(name, end) for name in ('like', 'before') for end in ('source', 'destination')})
        self.predicts(runs[0], one)

    def predicts(self, run, parts):
        relations = list(dict.fromkeys(group['relation'] for group in e2e.metrics(run, 'links')[-1]['groups']))
        best = np.load(self.predict(run, parts, '--top', '5', '--relation', relations[1], ranks=2))
        self.assertEqual(best.shape, (ENTITIES, 5))
        scores = np.load(self.folder / f'logits-{run.name}-scores.npy')
        self.assertTrue((np.diff(scores, axis=1) <= 0).all())
        asked = np.stack([np.repeat(np.arange(ENTITIES), 5), best.ravel(), np.ones(5 * ENTITIES, int)], axis=1)
        np.save(self.folder / 'pairs.npy', asked)
        of_pairs = np.load(self.predict(run, parts, '--pairs', self.folder / 'pairs.npy'))
        self.assertEqual(of_pairs.shape, (5 * ENTITIES, 1))
        np.testing.assert_allclose(of_pairs.ravel(), scores.ravel(), atol=1e-4)

    def test_layers_and_a_relation_of_choice(self):
        one, two = (self.build(self.input, parts) for parts in (1, 2))
        job = [*self.JOB, '--model', 'rgcn', '--fanouts', '5', '--hidden', '16', '--decoder', 'distmult', '--relation', 'before',
               '--global-batch-size', '200', '--loss', 'contrastive:0.7', '--lr', '0.01']
        runs = [self.train(graph, *job, '--epochs', '1', '--ranks-per-machine', ranks - 1, ranks=ranks)[0] for graph, ranks in [(one, 1), (two, 2)]]
        self.agree(runs, ('mrr',), 0.03)
        self.assertLess(e2e.final(runs[0])['test']['nodes'], 100, 'one of two relations')


class Ratings(Edges):
    """Users rate movies by how well two numbers of theirs agree."""

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(4)
        of_users, of_movies = random.normal(size=(USERS, 2)), random.normal(size=(MOVIES, 2))
        pairs = np.unique(random.integers(USERS * MOVIES, size=1500))
        random.shuffle(pairs)
        user, movie = np.divmod(pairs, MOVIES)
        self.ratings = 3 + (of_users[user] * of_movies[movie]).sum(1)
        np.save(self.folder / 'ratings.npy', self.ratings.astype(np.float32))
        np.save(self.folder / 'good.npy', self.ratings > 3)
        folder = self.folder / 'rated'
        for name, rows in (('user', of_users), ('movie', of_movies)):
            (folder / 'nodes' / name).mkdir(parents=True)
            np.save(folder / 'nodes' / name / 'x.npy', (rows + random.normal(size=rows.shape) / 10).astype(np.float32))
        for name, ends in (('user__rates__movie', (user, movie)), ('movie__rev_rates__user', (movie, user))):
            (folder / 'edges' / name).mkdir(parents=True)
            np.save(folder / 'edges' / name / 'edge_index.npy', np.stack(ends))
        self.input = f'npy:{folder}'

    def test_numbers_and_classes_on_any_ranks(self):
        one, three = (self.build(self.input, parts) for parts in (1, 3))
        job = ['--task', 'edge', '--relation', 'rates', '--model', 'rsage', '--fanouts', '3', '--hidden', '32', '--dropout', '0', '--seed', '2',
               '--global-batch-size', '128', '--log-every', '1', '--edge-split', '0.1,0.2', '--eval-every', '0']
        numbers = [*job, '--targets', self.folder / 'ratings.npy', '--loss', 'mse', '--lr', '0.03', '--epochs', '8']
        runs = [self.train(graph, *numbers, '--ranks-per-machine', machine, ranks=ranks)[0]
                for graph, ranks, machine in [(one, 1, 0), (three, 3, 1)]]
        self.agree(runs, ('rmse', 'mae', 'r2'), 0.02)
        self.assertLess(e2e.final(runs[0])['test']['rmse'], 0.6 * self.ratings.std())
        self.check_pairs(runs[0], one)
        classes = [*job, '--targets', self.folder / 'good.npy', '--epochs', '3', '--lr', '0.02']
        run, _ = self.train(three, *classes, '--ranks-per-machine', '1', ranks=2)
        self.assertGreater(e2e.final(run)['test']['ap'], 0.8)

    def check_pairs(self, run, parts):
        user, movie = np.load(self.folder / 'rated/edges/user__rates__movie/edge_index.npy')
        np.save(self.folder / 'pairs.npy', np.stack([user, movie], axis=1))
        predicted = np.load(self.predict(run, parts, '--pairs', self.folder / 'pairs.npy')).ravel()
        self.assertLess(np.sqrt(np.mean((predicted - self.ratings) ** 2)), 0.6 * self.ratings.std(), 'in units of the targets')
        done = self.run_program([e2e.BIN / 'strata-train', 'evaluate', run, '--graph', parts, '--device', 'cpu'])
        self.assertIn(f'{e2e.final(run)["test"]["rmse"]:.4f}', done.stdout, done.stderr)

    def test_refuses_what_is_not_meant(self):
        parts = self.build(self.input, 1)
        np.save(self.folder / 'short.npy', np.zeros(3, np.float32))
        for options, words in [(['--task', 'edge', '--loss', 'mse', '--relation', 'rates', '--targets', self.folder / 'short.npy'], 'the file has 3 rows'),
                               (['--task', 'link', '--relation', 'likes'], 'no relation "likes"'),
                               (['--loss', 'bpr'], 'one of links'), (['--loss', 'mse:3'], 'takes no number')]:
            done = self.run_program([e2e.BIN / 'strata-train', '--graph', parts, '--model', 'rgcn', '--output', self.folder / 'none', *options])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == '__main__':
    e2e.main()
