# SPDX-License-Identifier: Apache-2.0
"""--sm-split moves work, never a number; what cannot be split is refused."""
import re
import unittest

import strata_e2e as e2e
from test_metrics import documented_fields

SPEC = 'synthetic:kind=sbm,nodes=20000,edges=300000,features=24,classes=5,seed=7'
JOB = ['--fanouts', '6,5', '--hidden', '32', '--batch-size', '40', '--dropout', '0.3', '--log-every', '1', '--eval-every', '0',
       '--eval-fanouts', '2,2', '--checkpoint-every', '0', '--seed', '11']


class Refusals(e2e.Case):
    def refuse(self, words, *options):
        _, done = self.train('synthetic:kind=sbm,nodes=500,edges=4000,features=8,classes=3,seed=1', *options, expect=2, timeout=60)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_nonsense(self):
        self.refuse(['--sm-split 10', 'no pair of shares', '10,90'], '--sm-split', '10')
        self.refuse(['--sm-split 0,90', '0 percent'], '--sm-split', '0,90')
        self.refuse(['--sm-split 100,100', 'off'], '--sm-split', '100,100')
        self.refuse(['--sm-split 10,90', '--pipeline off'], '--sm-split', '10,90', '--pipeline', 'off')

    def test_no_gpu(self):
        self.refuse(['--sm-split 10,90', 'no rank computes on a GPU'], '--sm-split', '10,90')
        for split in ('auto', 'off'):
            output, done = self.train(SPEC, *JOB, '--sm-split', split, '--epochs', '1')
            self.assertNotIn('SMs', done.stdout + done.stderr)
            self.assertEqual(e2e.metrics(output, 'run')[0]['sm_split'], split)


@unittest.skipUnless(e2e.has_gpu(), 'no GPU')
class Splits(e2e.Case):
    def run_job(self, *options, ranks=1):
        output = self.folder / f'run{len(list(self.folder.glob("run*")))}'
        done = self.run_program(e2e.mpirun_command(ranks, ['--graph', SPEC, '--output', output, '--device', 'cuda', *JOB, *options]), 120)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return output, done.stderr + done.stdout

    def compare(self, splits, *options, ranks=1):
        reference, log = self.run_job('--sm-split', 'off', *options, ranks=ranks)
        self.assertNotIn('SMs', log)
        expected = e2e.step_losses(reference)
        self.assertGreater(len(expected), 100)
        self.assertGreater(abs(expected[0] - expected[-1]), 1e-2, 'nothing was learned')
        for split in splits:
            output, log = self.run_job('--sm-split', split, *options, ranks=ranks)
            self.assertIn('SMs, training on', log)
            self.assertEqual(e2e.step_losses(output), expected, f'{split} {options}')
            self.assertEqual(e2e.final(output)['valid'], e2e.final(reference)['valid'], f'{split} {options}')

    def test_changes_no_bit(self):
        for options in ([], ['--cuda-graph', 'off'], ['--model', 'gat', '--precision', 'bf16'], ['--precision', 'tf32'],
                        ['--placement', 'features=20/0/80'], ['--sampler-device', 'cpu'], ['--accumulate', '3', '--epochs', '2']):
            self.compare(['10,90', '20,100'], '--epochs', '1', *options)

    def test_overlap_and_extremes(self):
        self.compare(['60,70', '1,99', '99,1', '100,50'], '--epochs', '1')

    def test_ranks(self):
        self.compare(['10,90', '20,100'], '--epochs', '1', '--global-batch-size', '40', ranks=2)

    def test_auto_measures(self):  # every step takes its 30 MB over PCIe, so that the run is long enough to be worth it
        job = ['--graph', SPEC.replace('features=24', 'features=1024'), '--placement', 'features=0/0/100', '--batch-size', '250',
               '--log-every', '10', '--epochs', '400']
        reference, _ = self.run_job(*job, '--sm-split', 'off')
        output, log = self.run_job(*job, '--sm-split', 'auto')
        self.assertEqual(e2e.step_losses(output), e2e.step_losses(reference))
        record, = e2e.metrics(output, 'sm_split')
        self.assertEqual(set(record), documented_fields()['sm_split'] | {'time'})
        times = {entry['split']: entry['step_seconds'] for entry in record['measured']}
        self.assertEqual(next(iter(times)), 'off')
        self.assertGreater(len(times), 2)
        for split, seconds in times.items():
            self.assertGreater(seconds, 0)
            self.assertIn(f'{seconds * 1e3:.3f} ms with {split}', log)
        self.assertIn('SMs, training on', log)
        best = min(times, key=times.get)
        self.assertEqual(record['choice'], best if times[best] < 0.98 * times['off'] else 'off')

    def test_short_runs_stay_off(self):
        output, log = self.run_job('--epochs', '1')
        self.assertIn('too short to measure', log)
        self.assertEqual(e2e.metrics(output, 'sm_split'), [])
        _, log = self.run_job('--epochs', '1', '--batch-size', '4000')
        self.assertRegex(log, r'epochs of \d+ steps are too short')
        _, log = self.run_job('--epochs', '1', '--pipeline', 'off')
        self.assertNotIn('SMs', log)

    def test_says_how_many(self):
        _, log = self.run_job('--sm-split', '10,90', '--epochs', '1')
        load, every, train = map(int, re.search(r'loading on (\d+) of (\d+) SMs, training on (\d+)', log).groups())
        self.assertEqual(load + train, every)
        self.assertLess(load, every // 4)


if __name__ == '__main__':
    e2e.main()
