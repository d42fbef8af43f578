# SPDX-License-Identifier: Apache-2.0
"""--start-early trains while feature rows are still read, with the same numbers."""
import json

import strata_e2e as e2e
from test_metrics import documented_fields

NODES, COLUMNS = 20_000, 64
SPEC = f'synthetic:nodes={NODES},degree=12,features={COLUMNS},classes=5,noise=1,seed=3'
JOB = ['--fanouts', '4,3', '--hidden', '16', '--global-batch-size', '2000', '--epochs', '2', '--log-every', '1', '--seed', '11']


class StartEarly(e2e.Case):
    def same_run(self, graph, *options, ranks=1):
        runs = []
        for more in ([], ['--start-early']):
            output, done = self.train(graph, *JOB, *options, *more, ranks=ranks)
            runs.append((output, done.stdout + done.stderr))
        (late, _), (early, text) = runs
        losses, expected = e2e.step_losses(early), e2e.step_losses(late)
        self.assertEqual(len(expected), 12)
        if e2e.has_gpu():   # whose products may be summed in another order from run to run
            for loss, wanted in zip(losses, expected, strict=True):
                self.assertLess(abs(loss - wanted), 1e-6 * wanted)
            self.assertAlmostEqual(e2e.final(early)['test']['accuracy'], e2e.final(late)['test']['accuracy'], delta=0.002)
        else:
            self.assertEqual(losses, expected)
            self.assertEqual((early / 'model.safetensors').read_bytes(), (late / 'model.safetensors').read_bytes())
            self.assertEqual(e2e.final(early)['test'], e2e.final(late)['test'])
        self.assertEqual([r['start_early'] for r in e2e.metrics(late, 'first_step')], [False])
        self.assertEqual(e2e.metrics(late, 'arrival'), [])
        (first,), (arrival,) = e2e.metrics(early, 'first_step'), e2e.metrics(early, 'arrival')
        self.assertTrue(first['start_early'])
        self.assertGreater(first['seconds'], 0)
        self.assertEqual(set(arrival), documented_fields()['arrival'] | {'time'})
        self.assertGreater(arrival['late_rows'], 0)
        self.assertGreater(arrival['background_seconds'], 0)
        self.assertIn('the others are read while training begins', text)
        return arrival

    def test_losses_and_scores_are_the_same(self):
        graph = self.build(SPEC, 3)
        for options, ranks in (([], 1), (['--model', 'gat'], 2), (['--pipeline', 'off'], 1)):
            arrival = self.same_run(graph, *options, ranks=ranks)
            hot = NODES - arrival['late_rows']   # of each of three parts a tenth, rounded down, and one row
            self.assertTrue(NODES // 10 <= hot <= NODES // 10 + 3, hot)
        self.same_run(graph, '--ranks-per-machine', '1', '--halo-cache', '200KiB', ranks=2)
        self.same_run(graph, '--ranks-per-machine', '1', '--halo-cache', '0', '--eval-fanouts', '3,3', ranks=3)

    def test_damage_that_is_found_late_ends_all_ranks(self):
        graph = self.build(SPEC, 2)
        part = json.loads((graph / 'manifest.json').read_text())['parts'][1]
        (features,) = (d for d in part['datasets'] if d['name'].endswith('feat'))
        rows = features['shape'][0]
        with (graph / part['file']).open('r+b') as file:
            file.seek(features['offset'] + (rows - 5) * COLUMNS * 4)
            old = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([old[0] ^ 1]))
        for options, ranks in (([], 1), ([], 2), (['--ranks-per-machine', '1'], 2)):
            output, done = self.train(graph, *JOB, '--start-early', *options, ranks=ranks, expect=2)
            self.assertIn('changed since the parts were built', done.stderr)
            self.assertIn(part['file'], done.stderr)
            self.assertFalse((output / 'model.safetensors').exists())

    def test_a_run_that_stops_early_goes_on_with_the_same_numbers(self):
        graph = self.build(SPEC, 2)
        whole, _ = self.train(graph, *JOB, '--start-early')
        output, _ = self.train(graph, *JOB, '--start-early', '--epochs', '1')
        self.train(graph, '--start-early', '--epochs', '2', '--resume', output=output)
        self.assertEqual(e2e.step_losses(output), e2e.step_losses(whole))

    def test_refuses_graphs_that_are_not_read(self):
        _, done = self.train(SPEC, *JOB, '--start-early', expect=2)
        self.assertIn('--start-early has no effect without part files', done.stderr)


if __name__ == '__main__':
    e2e.main()
