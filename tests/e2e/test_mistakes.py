# SPDX-License-Identifier: Apache-2.0
"""Typical mistakes: each is answered with its exit code, with the words that help, and in a few lines.

The tables are in mistakes_of_runs.py (strata-train) and mistakes_of_data.py (inputs and strata-partition).
"""
import pathlib
import shutil
import tempfile
import unittest

import mistakes_of_data
import mistakes_of_runs
import strata_e2e as e2e

MOST_LINES = 6
NEVER = ('MPI_ABORT', 'ORTE', 'mpirun detected', '.cpp:', '.hpp:', 'terminate called', 'Traceback', '-----', 'Backtrace', 'HDF5-DIAG')
SHELL = f'source {e2e.REPOSITORY}/launch/mpi-env; PATH={e2e.BIN}:$PATH;'   # what getting started tells users to do


class Mistakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='strata-mistakes-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for module in mistakes_of_runs, mistakes_of_data:
            module.prepare(cls.folder, cls.shell)

    @classmethod
    def shell(cls, line):
        """Runs a line of a shell in the folder; returns (exit code, what it printed)."""
        done = e2e.subprocess.run(['bash', '-c', SHELL + line], cwd=cls.folder, env=e2e.ENVIRONMENT, text=True, timeout=120,
                                  stdin=e2e.subprocess.DEVNULL, stdout=e2e.subprocess.PIPE, stderr=e2e.subprocess.STDOUT)
        return done.returncode, done.stdout

    def check(self, table):
        for mistake in table:
            with self.subTest(mistake.line):
                code, text = self.shell(mistake.line)
                told = f'$ {mistake.line}\n{text}'
                self.assertEqual(code, mistake.code, told)
                for word in mistake.says:
                    self.assertIn(word, text, told)
                for word in (*NEVER, *mistake.never):
                    self.assertNotIn(word, text, told)
                self.assertLessEqual(len(text.strip().splitlines()), MOST_LINES, told)

    def test_of_runs(self):
        self.check(mistakes_of_runs.TABLE)

    def test_of_data(self):
        self.check(mistakes_of_data.TABLE)

    def test_there_are_many(self):
        lines = [mistake.line for mistake in mistakes_of_runs.TABLE + mistakes_of_data.TABLE]
        self.assertEqual(len(lines), len(set(lines)), 'each once')


if __name__ == '__main__':
    e2e.main()
