# SPDX-License-Identifier: Apache-2.0
"""Losses do not depend on whether a GPU or the CPU samples for a GPU that trains. Skipped where there is no GPU."""
import unittest

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=20000,edges=300000,features=24,classes=5,seed=7,weights=lognormal'
JOB = ['--device', 'cuda', '--fanouts', '6,5', '--hidden', '32', '--batch-size', '400', '--epochs', '2', '--optimizer', 'sgd', '--lr',
       '0.1', '--dropout', '0.3', '--log-every', '1', '--eval-every', '0', '--checkpoint-every', '0', '--seed', '11']


@unittest.skipUnless(e2e.has_gpu(), 'no GPU')
class SamplerDevice(e2e.Case):
    def losses(self, *options):
        output = self.folder / f'run{len(list(self.folder.glob("run*")))}'
        done = self.run_program(e2e.mpirun_command(1, ['--graph', SPEC, '--output', output, *JOB, *options]))
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return e2e.step_losses(output), done.stderr + done.stdout

    def compare(self, *options):
        expected, log = self.losses('--sampler-device', 'cuda', *options)
        self.assertIn('the GPU samples, as asked for', log)
        losses, log = self.losses('--sampler-device', 'cpu', *options)
        self.assertIn('the CPU samples, as asked for', log)
        self.assertEqual(len(losses), len(expected))
        self.assertGreater(len(losses), 40)
        for step, (a, b) in enumerate(zip(losses, expected)):
            self.assertLess(abs(a - b), 1e-4 * abs(b), f'{options}: step {step + 1}')
        self.assertGreater(abs(losses[0] - losses[-1]), 1e-3, f'{options}: nothing was learned')

    def test_models(self):
        for model in ('sage', 'gcn', 'gat'):
            self.compare('--model', model)

    def test_samplers(self):
        for options in (['--sampler', 'weighted'], ['--replace'], ['--sampler', 'labor']):
            self.compare(*options)

    def test_gathered_features(self):  # instead of rows that are read in place
        self.compare('--placement', 'features=50/0/50')

    def test_call_by_call(self):
        self.compare('--cuda-graph', 'off')

    def test_auto(self):
        _, log = self.losses()
        self.assertIn('the GPU samples: neighbor lists lie in GPU memory', log)
        _, log = self.losses('--placement', 'indices=0/0/100')
        self.assertIn('all neighbor lists lie in host memory', log)


if __name__ == '__main__':
    e2e.main()
