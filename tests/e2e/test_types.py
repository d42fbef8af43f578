# SPDX-License-Identifier: Apache-2.0
"""Graphs of several types from files to predictions: cut, trained, evaluated and predicted on any ranks and machines, with equal results."""
import json
import signal

import numpy as np

import strata_e2e as e2e
from test_evaluation import read_safetensors

SIZES = {'paper': 1200, 'author': 700, 'venue': 12}
COLS = {'paper': 24, 'author': 10}   # venues have no features
RELATIONS = {('author', 'writes', 'paper'): 5000, ('paper', 'written_by', 'author'): 5000, ('paper', 'cites', 'paper'): 6000,
             ('venue', 'publishes', 'paper'): 1200, ('paper', 'in', 'venue'): 1200}
JOB = ['--hidden', '16', '--fanouts', '5,4', '--global-batch-size', '90', '--epochs', '3', '--log-every', '1', '--seed', '4', '--dropout', '0']
MODELS = 'rgcn', 'rgat', 'hgt'


def write(folder):
    """A typed folder whose papers cite and are written by papers and authors of their class."""
    random = np.random.default_rng(1)
    classes = {kind: random.integers(4, size=size) for kind, size in SIZES.items()}
    centers = {kind: random.normal(size=(4, cols)) for kind, cols in COLS.items()}
    for kind, size in SIZES.items():
        place = folder / 'nodes' / kind
        place.mkdir(parents=True)
        if kind in COLS:
            np.save(place / 'x.npy', (centers[kind][classes[kind]] + 2 * random.normal(size=(size, COLS[kind]))).astype(np.float32))
        else:
            np.save(place / 'num_nodes.npy', size)
    papers = folder / 'nodes/paper'
    order = random.permutation(SIZES['paper'])
    np.save(papers / 'y.npy', classes['paper'])
    for name, ids in {'train': order[:540], 'valid': order[540:840], 'test': order[840:]}.items():
        np.save(papers / f'{name}.npy', np.sort(ids))
    reverse = {'written_by': 'writes', 'in': 'publishes'}
    made = {}
    for (source, name, destination), count in RELATIONS.items():
        if name in reverse:
            made[name] = made[reverse[name]][::-1]
        else:
            ends = random.integers(SIZES[destination], size=3 * count), random.integers(SIZES[source], size=3 * count)
            likely = (classes[destination][ends[0]] == classes[source][ends[1]]) | (random.random(3 * count) < .1)
            made[name] = np.stack([ends[1][likely], ends[0][likely]])[:, :count]
        place = folder / 'edges' / f'{source}__{name}__{destination}'
        place.mkdir(parents=True)
        np.save(place / 'edge_index.npy', made[name])
    return classes


class Types(e2e.Case):
    def setUp(self):
        super().setUp()
        self.classes = write(self.folder / 'graph')
        self.spec = f'npy:{self.folder / "graph"}'

    def test_results_are_equal_on_any_ranks_machines_and_parts(self):
        one, three = self.build(self.spec, 1), self.build(self.spec, 3)
        for model in MODELS:
            with self.subTest(model):
                job = ['--model', model, *JOB, *([] if model == 'rgcn' else ['--attention-dropout', '0.2'])]
                run, _ = self.train(one, *job)
                alone = e2e.step_losses(run)
                self.assertLess(np.mean(alone[-4:]), 0.96 * np.mean(alone[:4]))
                for ranks, machines in ((2, []), (3, ['--ranks-per-machine', '1'])):
                    other, _ = self.train(three, *job, *machines, ranks=ranks)
                    np.testing.assert_allclose(e2e.step_losses(other), alone, rtol=2e-4)
                    np.testing.assert_allclose(e2e.final(other)['test']['accuracy'], e2e.final(run)['test']['accuracy'], atol=0.02)
                logits = np.load(self.predict(run, one))
                np.testing.assert_allclose(np.load(self.predict(run, three, ranks=2)), logits, rtol=1e-3, atol=1e-4)

    def test_a_run_that_was_stopped_goes_on(self):
        graph = self.build(self.spec, 2)
        whole, _ = self.train(graph, '--model', 'rsage', *JOB)
        stopped = self.folder / 'stopped'
        code, text = self.signalled(graph, stopped, signal.SIGUSR1, '--model', 'rsage', *JOB)
        self.assertEqual(code, 75, text)
        done = self.run_program(e2e.mpirun_command(1, ['--resume', stopped]))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        np.testing.assert_allclose(e2e.step_losses(stopped), e2e.step_losses(whole), rtol=2e-4)

    def test_rows_are_learned_for_types_without_features(self):
        """Features are noise here, so that papers are told apart by the venues that published them."""
        for kind, cols in COLS.items():
            noise = np.random.default_rng(2).normal(size=(SIZES[kind], cols))
            np.save(self.folder / 'graph/nodes' / kind / 'x.npy', noise.astype(np.float32))
        one, three = self.build(self.spec, 1), self.build(self.spec, 3)
        job = ['--model', 'rsage', *JOB, '--epochs', '4', '--lr', '0.02']
        plain, done = self.train(one, *job)
        self.assertIn('--learned-rows 64 learns a row for each', done.stderr + done.stdout)
        job += ['--learned-rows', '32', '--learned-lr', '0.05']
        run, done = self.train(one, *job)
        self.assertIn('learned rows of 32 columns for nodes without features (12 venue)', done.stderr + done.stdout)
        accuracy = e2e.final(run)['test']['accuracy']
        self.assertGreater(accuracy, e2e.final(plain)['test']['accuracy'] + 0.15)
        self.assertEqual(read_safetensors(run / 'model.safetensors')['learned_rows.venue'].shape, (12, 32))
        machines = ['--ranks-per-machine', '1']
        other, _ = self.train(three, *job, *machines, ranks=2)
        np.testing.assert_allclose(e2e.step_losses(other), e2e.step_losses(run), rtol=2e-4)
        np.testing.assert_allclose(e2e.final(other)['test']['accuracy'], accuracy, atol=0.02)
        logits = np.load(self.predict(run, three, ranks=2))
        self.assertGreater(np.mean(logits.argmax(1) == self.classes['paper']), accuracy - 0.1)
        stopped = self.folder / 'stopped'
        code, text = self.signalled(three, stopped, signal.SIGUSR1, *job, *machines)
        self.assertEqual(code, 75, text)
        done = self.run_program(e2e.mpirun_command(2, ['--resume', stopped]))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(e2e.step_losses(stopped), e2e.step_losses(other))
        for name, tensor in read_safetensors(stopped / 'model.safetensors').items():
            np.testing.assert_array_equal(tensor, read_safetensors(other / 'model.safetensors')[name], name)

    def test_each_of_several_targets_is_learned(self):
        """Authors have three classes, papers four."""
        authors = self.folder / 'graph/nodes/author'
        np.save(authors / 'y.npy', self.classes['author'] % 3)
        for name, ids in {'train': np.arange(400), 'valid': np.arange(400, 500), 'test': np.arange(500, 700)}.items():
            np.save(authors / f'{name}.npy', ids)
        graph = self.build(self.spec, 2)
        self.assertIn('Give --target with one of author, paper, venue', self.train(graph, '--model', 'rgcn', *JOB, expect=2)[1].stderr)
        for target, tested in (('author', 200), ('paper', 360)):
            run, _ = self.train(graph, '--model', 'rgcn', '--target', target, *JOB, '--epochs', '6', '--lr', '0.02', output=self.folder / target)
            scores = e2e.final(run)['test']
            self.assertGreater(scores['accuracy'], 0.55)
            self.assertEqual(scores['nodes'], tested)
            logits = np.load(self.predict(run, graph))
            self.assertEqual(len(logits), SIZES[target])
            labels = self.classes[target] % (3 if target == 'author' else 4)
            self.assertGreater(np.mean(logits.argmax(1) == labels), 0.55)
        (self.folder / 'copy').mkdir()
        done = self.run_program([e2e.BIN / 'strata-partition', 'convert', graph, f'npy:{self.folder / "copy" / "graph"}'])
        self.assertEqual(done.returncode, 0, done.stderr)
        facts = [json.loads((parts / 'manifest.json').read_text())['type_facts']
                 for parts in (graph, self.build(f'npy:{self.folder / "copy" / "graph"}', 3, 'copied'))]
        self.assertEqual(*facts)
        self.assertEqual([kind['labelled'] for kind in facts[0]['nodes']], [700, 1200, 0])
        one = self.build(f'{self.spec},target=author', 2, 'authors')
        self.assertEqual(json.loads((one / 'manifest.json').read_text())['type_facts']['nodes'][1]['labelled'], 0, 'papers')

    def test_parts_are_described_and_verified(self):
        graph = self.build(self.spec, 2)
        done = self.run_program([e2e.BIN / 'strata-partition', 'verify', graph])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.run_program([e2e.BIN / 'strata-partition', 'info', graph, '--json'])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        text = json.dumps(json.loads(done.stdout))
        for word in (*SIZES, *(name for _, name, _ in RELATIONS)):
            self.assertIn(word, text)


if __name__ == '__main__':
    e2e.main()
