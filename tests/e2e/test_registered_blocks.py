# SPDX-License-Identifier: Apache-2.0
"""Copies between a GPU and host memory that is registered in several blocks. Skipped where there is no GPU."""
import unittest

import strata_e2e as e2e

BLOCK = 'STRATA_REGISTRATION_BLOCK'
SPEC = 'synthetic:kind=sbm,nodes=20000,edges=300000,features={features},classes=5,seed=7'
JOB = ['--device', 'cuda', '--fanouts', '6,5', '--hidden', '33', '--batch-size', '400', '--epochs', '2', '--log-every', '1', '--seed', '11']


@unittest.skipUnless(e2e.has_gpu(), 'no GPU')
class RegisteredBlocks(e2e.Case):
    def run_job(self, block, *options, ranks=1):
        output = self.folder / f'run{len(list(self.folder.glob("run*")))}'
        done = self.run_program(e2e.mpirun_command(ranks, ['--output', output, *JOB, *options]), **({BLOCK: block} if block else {}))
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return e2e.step_losses(output), e2e.final(output)['valid'], (output / 'model.safetensors').read_bytes()

    def test_changes_no_bit(self):
        # All rows in host memory: synthetic features are made on the GPU, evaluation moves hidden rows to and fro. 24 columns are
        # dense rows, 25 padded ones; a block holds no whole number of either.
        for features in (24, 25):
            for options in (['--placement', 'host'], ['--placement', 'features=30/0/70'], ['--placement', 'host', '--host-gather', 'threads']):
                for ranks in (1, 2):
                    job = ['--graph', SPEC.format(features=features), '--global-batch-size', '400', *options]
                    expected = self.run_job(None, *job, ranks=ranks)
                    self.assertGreater(len(expected[0]), 40)
                    self.assertEqual(self.run_job('64KiB', *job, ranks=ranks), expected, f'{features} columns, {options}, {ranks} ranks')

    def test_refuses_what_is_no_block(self):
        done = self.run_program(e2e.mpirun_command(1, ['--graph', SPEC.format(features=8), '--output', self.folder / 'run', *JOB]),
                                **{BLOCK: '1000'})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(BLOCK, done.stderr)


if __name__ == '__main__':
    e2e.main()
