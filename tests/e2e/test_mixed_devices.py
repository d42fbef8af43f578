# SPDX-License-Identifier: Apache-2.0
"""Ranks with and without a GPU in one run: the same losses as on the cpu, nobody waits for ever, and what cannot be is refused with
the ranks named. Skipped where there is no GPU."""
import unittest

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=6000,edges=90000,features=24,classes=5,seed=7'
JOB = {'--fanouts': '6,5', '--hidden': 32, '--global-batch-size': 200, '--dropout': 0.3, '--log-every': 1, '--epochs': 3,
       '--precision': 'f32', '--seed': 11}
PLACES = ('gpu', 'cpu')


@unittest.skipUnless(e2e.has_gpu(), 'no GPU')
class MixedDevices(e2e.Case):
    def run_ranks(self, places, graph, *options, expect=0, output=None):
        """A rank per place: 'gpu' sees the GPUs of the host, 'cpu' none."""
        output = output or self.folder / f'run{len(list(self.folder.glob("run*")))}'
        job = [word for name, value in JOB.items() if name not in options for word in (name, value)]
        command = [e2e.MPIRUN, '--oversubscribe', '--bind-to', 'none']
        for place in places:
            command += [':'] if '-n' in command else []
            command += ['-n', '1', 'env'] + (['CUDA_VISIBLE_DEVICES='] if place == 'cpu' else [])
            command += [e2e.BIN / 'strata-train', '--graph', graph, '--output', output, *job, *options]
        done = self.run_program(command, timeout=150)  # a rank that waits for ever is found after 300 s
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout)
        return output, done.stderr + done.stdout

    def compare(self, places, graph, *options, of_gpus=()):
        """`of_gpus`: options that only a run with a GPU takes."""
        expected, _ = self.run_ranks(places, graph, '--device', 'cpu', *options)
        output, log = self.run_ranks(places, graph, *options, *of_gpus)
        self.assertIn('on the cpu, the other', log)
        self.assertEqual(e2e.metrics(output, 'run')[0]['device'], 'mixed')
        self.assertEqual(e2e.metrics(output, 'run')[0]['reducer'], 'mpi')
        losses, wanted = e2e.step_losses(output), e2e.step_losses(expected)
        self.assertEqual(len(losses), len(wanted))
        for step, (a, b) in enumerate(zip(losses, wanted)):
            self.assertLess(abs(a - b), 1e-3 * abs(b), f'{options}: step {step + 1}')
        self.assertLess(abs(e2e.final(output)['test']['accuracy'] - e2e.final(expected)['test']['accuracy']), 0.02)

    def test_one_machine(self):
        for places in (PLACES, reversed(PLACES)):
            self.compare(list(places), SPEC)
        self.compare(PLACES, SPEC, '--optimizer', 'sgd', '--lr', '0.1', '--clip-grad', '1', '--accumulate', '2')
        self.compare(PLACES, SPEC, '--eval-fanouts', '5,5')

    def test_models(self):
        for model in ('gcn', 'gat'):
            self.compare(PLACES, SPEC, '--model', model)

    def test_a_long_run_measures_nothing_that_others_do_not(self):  # SM splits, threads of the loader
        self.compare(PLACES, SPEC, '--epochs', '40', '--global-batch-size', '100')

    def test_machines(self):
        parts = self.build(SPEC, 2)
        for options in (['--replicate-graph', 'off'], ['--replicate-graph', 'on'], ['--halo-cache', '100000']):
            self.compare(PLACES, parts, '--ranks-per-machine', '1', *options)
        self.compare((*PLACES, *PLACES), parts, '--ranks-per-machine', '2')

    def test_weighted_presampled_and_limited(self):
        parts = self.build(SPEC + ',weights=lognormal', 2)
        self.compare(PLACES, parts, '--ranks-per-machine', '1', '--sampler', 'weighted',
                     of_gpus=['--gpu-memory', '1MiB'])

    def test_resumes(self):
        once, _ = self.run_ranks(PLACES, SPEC, '--epochs', '4')
        twice, _ = self.run_ranks(PLACES, SPEC, '--epochs', '2', '--checkpoint-every', '1')
        self.run_ranks(PLACES, SPEC, '--epochs', '4', '--resume', output=twice)
        losses = [e2e.metrics(output, 'epoch')[-1]['loss'] for output in (once, twice)]
        self.assertLess(abs(losses[0] - losses[1]), 1e-3 * losses[0])

    def test_refuses_what_only_gpus_can(self):
        for option in (['--device', 'cuda'], ['--sampler-device', 'cuda'], ['--cuda-graph', 'on'], ['--sm-split', '20,100']):
            _, log = self.run_ranks(PLACES, SPEC, *option, expect=2)
            self.assertRegex(log, r'rank 1 \(host [^)]+\) (sees none|computes on the cpu)')


if __name__ == '__main__':
    e2e.main()
