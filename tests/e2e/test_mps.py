# SPDX-License-Identifier: Apache-2.0
"""launch/with-mps: its daemon serves one command and ends with it; where there is no MPS it says so."""
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import strata_e2e as e2e

SCRIPT = e2e.REPOSITORY / 'launch/with-mps'
HAS_MPS = shutil.which('nvidia-cuda-mps-control') is not None and shutil.which('nvidia-smi') is not None


class WithMps(e2e.Case):
    def run_script(self, *arguments):
        return self.run_program([SCRIPT, *arguments])

    def check_gone(self, text):
        daemon = int(re.search(r'MPS daemon (\d+)', text).group(1))
        self.assertFalse(pathlib.Path(f'/proc/{daemon}').exists())
        folder = re.search(r'folder (\S+)', text).group(1)
        self.assertFalse(pathlib.Path(folder).exists())

    def test_refuses_bad_options(self):
        for arguments, words in [([], 'no command'), (['--percentage', '0', 'true'], 'within 1 and 100'),
                                 (['--percentage', 'x', 'true'], 'within 1 and 100'),
                                 (['--percentage', '10,0', 'true'], 'within 1 and 100'),
                                 (['--percentage', '10,20,30', 'true'], 'of loading and of training'), (['--other', 'true'], "no option '--other'")]:
            done = self.run_script(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)

    @unittest.skipIf(HAS_MPS, 'MPS is here')
    def test_says_that_there_is_none(self):
        done = self.run_script('true')
        self.assertEqual(done.returncode, 1)
        self.assertIn('nvidia-cuda-mps-control is not there', done.stderr)

    @unittest.skipUnless(HAS_MPS, 'needs a GPU and nvidia-cuda-mps-control')
    def test_passes_the_exit_code_on_and_ends(self):
        for code in (0, 7):
            done = self.run_script('--percentage', '50', 'bash', '-c',
                                   f'echo folder $CUDA_MPS_PIPE_DIRECTORY, $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; exit {code}')
            self.assertEqual(done.returncode, code, done.stderr + done.stdout)
            self.assertIn(', 50', done.stdout)
            self.check_gone(done.stdout.replace(',', ''))

    @unittest.skipUnless(HAS_MPS, 'needs a GPU and nvidia-cuda-mps-control')
    def test_hands_two_shares_on(self):
        done = self.run_script('--percentage', '10,90', 'bash', '-c', 'echo limit $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, shares $STRATA_MPS_SHARES')
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn('limit 100, shares 10,90', done.stdout)
        self.assertIn('10 % of a GPU for loading and 90 % for training', done.stderr + done.stdout)

    @unittest.skipUnless(HAS_MPS, 'needs a GPU and nvidia-cuda-mps-control')
    def test_ends_on_a_signal(self):
        log = self.folder / 'log'
        with log.open('w') as stream:
            process = subprocess.Popen([str(SCRIPT), 'bash', '-c', 'echo folder $CUDA_MPS_PIPE_DIRECTORY; exec sleep 60'], stdout=stream,
                                       stderr=stream)
        e2e.wait_until(lambda: 'folder' in log.read_text(), log)
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(timeout=30), 0)
        self.check_gone(log.read_text())

    @unittest.skipUnless(HAS_MPS, 'needs a GPU and nvidia-cuda-mps-control')
    def test_ranks_share_a_gpu(self):
        command = [SCRIPT, '--percentage', '50', *e2e.mpirun_command(2, [
            '--graph', 'synthetic:kind=sbm,nodes=2000,edges=20000,features=16,classes=4,seed=1', '--device', 'cuda', '--fanouts', '4,4',
            '--hidden', '16', '--epochs', '2', '--output', self.folder / 'run'])]
        done = self.run_program(command)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertEqual(e2e.final(self.folder / 'run')['epochs'], 2)


if __name__ == '__main__':
    e2e.main()
