# SPDX-License-Identifier: Apache-2.0
"""Whatever starts the ranks: Open MPI, MPICH, torchrun, or strata-run where there is no mpirun."""
import shutil
import sys
import unittest

import strata_e2e as e2e

MPICH = e2e.REPOSITORY / '.deps' / 'mpich' / 'bin' / 'mpirun'
TRAIN = ('--graph', 'synthetic:nodes=3000,degree=8,features=16,classes=4', '--fanouts', '5,5', '--hidden', '16', '--epochs', '2',
         '--device', 'cpu', '--log-level', 'warn', '--output')
TORCHRUN = (sys.executable, '-m', 'torch.distributed.run', '--nproc-per-node', '2', '--no-python')


class Launchers(e2e.Case):
    def losses(self, launcher, name, **environment):
        """Of two ranks."""
        output = self.folder / name
        done = self.run_program([*launcher, e2e.BIN / 'strata-train', *TRAIN, output], **environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [epoch['loss'] for epoch in e2e.metrics(output, 'epoch')]

    def setUp(self):
        super().setUp()
        self.expected = self.losses([e2e.MPIRUN, '-n', '2', '--oversubscribe', '--bind-to', 'none'], 'open_mpi')

    def tools(self):
        """A PATH without any mpirun."""
        folder = self.folder / 'tools'
        folder.mkdir()
        for tool in ('awk', 'basename', 'bash', 'cat', 'dirname', 'env', 'id', 'python3', 'sed', 'sleep'):
            (folder / tool).symlink_to(shutil.which(tool))
        return str(folder)

    @unittest.skipUnless(MPICH.exists(), 'needs the mpirun of MPICH: launch/setup --tests')
    def test_mpich(self):
        self.assertEqual(self.losses([MPICH, '-n', '2'], 'mpich'), self.expected)
        done = self.run_program([MPICH, '-n', '2', e2e.BIN / 'strata-train', *TRAIN, self.folder / 'other'], STRATA_MPI='openmpi')
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('Open MPI sees only one', done.stderr)

    def test_torchrun(self):
        if self.run_program([sys.executable, '-c', 'import torch']).returncode:
            self.skipTest('torch is not there')
        self.assertEqual(self.losses(TORCHRUN, 'torchrun'), self.expected)

    def test_strata_run_without_mpirun(self):
        run = [e2e.REPOSITORY / 'launch' / 'strata-run', '-n', '2', '--']
        environment = {'PATH': self.tools(), 'STRATA_BIN': str(e2e.BIN)}
        done = self.run_program([*run, *TRAIN, self.folder / 'alone'], **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([epoch['loss'] for epoch in e2e.metrics(self.folder / 'alone', 'epoch')], self.expected)
        done = self.run_program([run[0], '--host', 'a,b', '--', *TRAIN, self.folder / 'hosts'], **environment)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("knows only '-n RANKS'", done.stderr)

    def test_a_library_that_is_not_there(self):
        done = self.run_program([e2e.BIN / 'strata-train', *TRAIN, self.folder / 'none'], MPI_LOCALNRANKS='2', PMI_SIZE='2', PMI_RANK='0',
                                STRATA_MPI='lam')
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('STRATA_MPI=lam names no MPI', done.stderr)


if __name__ == '__main__':
    e2e.main()
