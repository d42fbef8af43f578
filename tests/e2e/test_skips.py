# SPDX-License-Identifier: Apache-2.0
"""launch/test reports what is skipped as skipped, with its reason, and never as passed; it builds what the chosen tests need."""
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import unittest

import strata_e2e as e2e

SUPPORT = e2e.REPOSITORY / 'tests' / 'support'
RUN_CTEST = SUPPORT / 'run_ctest.py'
CTEST = shutil.which('ctest', path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get('PATH', '')]))
SKIPS = e2e.BIN / 'skips_scenario'


class PythonTests(e2e.Case):
    def run_cases(self, *bodies):
        cases = ''.join(f'    def test_{i}(self):\n        {body}\n' for i, body in enumerate(bodies))
        script = self.folder / 'cases.py'
        script.write_text(f'import strata_e2e as e2e\n\n\nclass Cases(e2e.Case):\n{cases}\n\ne2e.main()\n')
        environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(__file__).parent))
        return subprocess.run([sys.executable, script], env=environment, text=True, capture_output=True, timeout=60)

    def test_exit_code(self):
        skip, fail = "self.skipTest('needs a unicorn')", 'self.fail()'
        for bodies, code, told in [((skip, skip), e2e.SKIPPED, '-- skipped: 2 of 2 cases: needs a unicorn'),
                                   ((skip, 'pass'), 0, '-- skipped: 1 of 2 cases: needs a unicorn'),
                                   ((skip, fail), 1, '-- skipped: 1 of 2 cases: needs a unicorn'), (('pass',), 0, '')]:
            done = self.run_cases(*bodies)
            self.assertEqual((done.returncode, done.stdout.strip()), (code, told), done.stderr)


@unittest.skipUnless(CTEST, 'needs ctest')
class ClosingLines(e2e.Case):
    def run_suite(self, **commands):
        """(exit code, lines that ctest and the summary printed) of a suite of these shell commands."""
        suite = ''.join(f'add_test([=[{name}]=] sh -c [=[{command}]=])\n'
                        f'set_tests_properties([=[{name}]=] PROPERTIES SKIP_RETURN_CODE 77)\n' for name, command in commands.items())
        (self.folder / 'CTestTestfile.cmake').write_text(textwrap.dedent(suite))
        done = subprocess.run([sys.executable, RUN_CTEST, CTEST, '--test-dir', self.folder], text=True, capture_output=True, timeout=60)
        return done.returncode, done.stdout.splitlines()

    def test_skipped_tests_and_their_reasons(self):
        skipped = f'{SKIPS} --gtest_filter=Skips.Always*'
        code, lines = self.run_suite(a='true', b=skipped, c=skipped, d='exit 77', e=f'{SKIPS} --gtest_filter=-Skips.Fails')
        self.assertEqual(code, 0)
        self.assertEqual(lines[-7:], ['-- 5 tests: 2 ran, 3 were skipped:', '--       2  needs what no machine has', '--       1  no reason given',
                                      '-- cases skipped within tests that ran:', '--       2  needs what no machine has', '',
                                      '100% tests passed, 0 tests failed out of 5'])

    def test_nothing_is_skipped(self):
        code, lines = self.run_suite(a='true', b='true')
        self.assertEqual(code, 0)
        self.assertEqual(lines[-3:], ['-- 2 tests: 2 ran, 0 were skipped', '', '100% tests passed, 0 tests failed out of 2'])

    def test_a_failure_fails(self):
        code, lines = self.run_suite(a='true', b='exit 77', c='exit 3')
        self.assertNotEqual(code, 0)
        self.assertIn('-- 3 tests: 2 ran, 1 were skipped:', lines)
        self.assertEqual(lines[-1], '67% tests passed, 1 tests failed out of 3')


@unittest.skipUnless(CTEST, 'needs ctest')
class NeededTargets(e2e.Case):
    def needed(self, *options):
        """(exit code, targets, what was said) for the tests of this build that ctest's options choose."""
        build = e2e.BIN.parent
        done = subprocess.run([sys.executable, SUPPORT / 'needed_targets.py', CTEST, build, build, *options], text=True, capture_output=True,
                              timeout=60)
        return done.returncode, done.stdout.split(), done.stderr

    def test_are_those_that_a_test_names(self):
        for name, targets in [('skips.all', ['bin/skips_scenario']), ('layering', []), ('e2e.skips', ['bin/skips_scenario', 'programs'])]:
            code, found, said = self.needed('-R', f'^{name}$')
            self.assertEqual((code, found), (0, targets), said)
            self.assertRegex(said, r'^-- 1 tests \(1 (unit|e2e)\) after \d+ new steps of building: about \d+ min on \d+ cores$')

    def test_of_no_test(self):
        code, _, said = self.needed('-R', 'no.such.test')
        self.assertEqual(code, 1)
        self.assertIn('has no such tests: -R no.such.test', said)

    def test_of_options_that_ctest_refuses(self):
        code, targets, said = self.needed('--wrong', '-R', 'layering')
        self.assertEqual((code, targets), (1, []))
        self.assertIn('ctest does not take these options: --wrong -R layering', said)
        self.assertNotIn('Traceback', said)


if __name__ == '__main__':
    e2e.main()
