# SPDX-License-Identifier: Apache-2.0
"""A run goes on with the same losses on other numbers of ranks and machines, and with other parts of its graph."""
import re
import signal

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=16000,edges=160000,features=24,classes=5,seed=3'   # epochs long enough to be stopped within
JOB = ['--fanouts', '5,5', '--hidden', '32', '--global-batch-size', '100', '--epochs', '4', '--log-every', '1', '--seed', '5',
       '--optimizer', 'sgd', '--lr', '0.1']
STOPPED = 75


class Rescale(e2e.Case):
    def check(self, *options):
        job = [*JOB, *options]
        one, four = self.build(SPEC, 1), self.build(SPEC, 4)
        other = self.build(SPEC, 3, 'other', '--method', 'random')
        output = self.folder / 'rescaled'
        self.train(four, *job, '--epochs', '1', ranks=4, output=output)
        self.train(other, *job, '--epochs', '2', '--resume', ranks=2, output=output)
        epoch, stops = self.stop_within_an_epoch(other, output, *job, '--resume', '--ranks-per-machine', '1')
        self.train(one, *job, '--epochs', epoch, '--resume', output=output)
        self.train(four, *job, '--epochs', epoch + 1, '--resume', ranks=4, output=output)

        self.assertEqual([record['ranks'] for record in e2e.metrics(output, 'run')], [4, 2, *[3] * stops, 1, 4])
        whole, _ = self.train(four, *job, '--epochs', epoch + 1, ranks=4)
        self.assertEqual(e2e.steps(whole), e2e.steps(output))
        for place, a, b in zip(e2e.steps(whole), e2e.step_losses(output), e2e.step_losses(whole)):
            self.assertLess(abs(a - b), 1e-4 * abs(b), f'epoch and step {place}')
        evaluations = e2e.metrics(output, 'evaluation')
        self.assertEqual([record['epoch'] for record in evaluations], list(range(1, epoch + 2)))
        for record, expected in zip(evaluations, e2e.metrics(whole, 'evaluation')):
            self.assertAlmostEqual(record['valid']['accuracy'], expected['valid']['accuracy'], delta=0.005)

    def stop_within_an_epoch(self, graph, output, *job):
        """On three ranks; returns the number of the epoch, and how many stops it took: one may come at the end of an epoch."""
        for stops in range(1, 6):
            code, text = self.signalled(graph, output, signal.SIGUSR1, *job, '--epochs', '1000', ranks=3, after=len(e2e.steps(output)) + 5)
            self.assertEqual(code, STOPPED, text)
            progress = e2e.progress(output / 'checkpoint.safetensors')
            if progress['step_in_epoch']:
                return progress['epoch'] + 1, stops
        self.fail('every stop came at the end of an epoch')

    def test_goes_on_with_the_same_losses(self):
        self.check()

    def test_goes_on_with_the_same_losses_where_updates_have_several_batches(self):
        self.check('--accumulate', '3', '--model', 'gcn', '--dropout', '0.2')

    def test_stops_between_updates(self):
        # Asked to soon after the first update, in the midst of the second: its end is none of the 16 steps whose times are taken.
        updates = 12
        graph, output = self.build(SPEC, 2), self.folder / 'stopped'
        job = [*JOB, '--accumulate', str(updates), '--fanouts', '15,15', '--hidden', '128']
        code, text = self.signalled(graph, output, signal.SIGUSR1, *job, '--ranks-per-machine', '1', after=1)
        self.assertEqual(code, STOPPED, text)
        self.assertEqual(e2e.progress(output / 'checkpoint.safetensors')['step_in_epoch'] % updates, 0)

    def test_refuses_another_batch_with_the_option_that_helps(self):
        graph = self.build(SPEC, 1)
        job = ['--fanouts', '5,5', '--hidden', '16', '--batch-size', '50']
        output, _ = self.train(graph, *job, '--epochs', '1', ranks=4)
        _, done = self.train(graph, *job, '--epochs', '2', '--resume', ranks=2, output=output, expect=2)
        self.assertIn('--global-batch-size 100 instead of 200', done.stderr)
        remedy = re.search(r'Give (--global-batch-size \d+)', done.stderr).group(1).split()
        self.train(graph, *job, *remedy, '--epochs', '2', '--resume', ranks=2, output=output)


if __name__ == '__main__':
    e2e.main()
