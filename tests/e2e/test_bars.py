# SPDX-License-Identifier: Apache-2.0
"""The bars of benchmarks/exchange: its cases run on tiny graphs, and what cannot be measured is named."""
import json
import subprocess
import sys
import types

import strata_e2e as e2e

FOLDER = e2e.REPOSITORY / 'benchmarks/exchange'
sys.path.insert(0, str(FOLDER))
import bars  # noqa: E402


class Bars(e2e.Case):
    def rows(self, *options):
        path = self.folder / 'bars.json'
        done = self.run_program([sys.executable, FOLDER / 'bars.py', '--json', path, *options])
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        table = [line for line in done.stdout.splitlines() if line.startswith('| ')][1:]
        found = json.loads(path.read_text())
        self.assertEqual(len(table), len(found['rows']))
        return found, {row['case']: row for row in found['rows']}, done.stdout

    def test_cases_run_on_tiny_graphs(self):
        names = ['planted', 'replicated', 'products', 'spread']
        found, rows, _ = self.rows('--small', '--runs', '1', '--only', ','.join(names))
        self.assertEqual((list(rows), found['runs'], found['small']), (names, 1, True))
        for name, row in rows.items():
            self.assertGreater(row['measured'], 0, name)
            self.assertAlmostEqual(row['ratio'], row['measured'] / row['reference'])
            self.assertEqual(row['verdict'], 'tiny, not judged')
        self.assertEqual(rows['planted']['reference'], rows['replicated']['reference'], 'the same runs on one machine')
        self.assertGreaterEqual(rows['spread']['ratio'], 1)

    @e2e.needs_data('facebook100')
    def test_clusters_save_input_rows(self):
        _, rows, _ = self.rows('--small', '--only', 'clusters')
        row = rows['clusters']
        self.assertEqual(row['unit'], 'rows per epoch')
        self.assertGreater(row['measured'], 0)
        self.assertLess(row['ratio'], 1)

    def test_names_what_it_cannot_measure(self):
        if e2e.num_gpus() >= 4:
            self.skipTest('this machine has four GPUs')
        _, rows, text = self.rows('--only', 'planted,four,papers100M')
        for name, row in rows.items():
            self.assertEqual(row['verdict'], f'not measurable here: it needs 4 GPUs, and there are {e2e.num_gpus()}', name)
            self.assertNotIn('ratio', row)
        self.assertEqual(text.count('not measurable here'), 3)

    def test_judges(self):
        host = types.SimpleNamespace(gpus=[], small=False, device=lambda case: 'cpu')
        for measured, verdict in ((1.9, 'met'), (2.1, 'missed')):
            case = bars.Case('cpu', 'a case', 2.0, lambda host, case, measured=measured: bars.Found(measured, 1.0))
            row = bars.row_of(case, host)
            self.assertEqual((row['verdict'], row['ratio']), (verdict, measured))
            self.assertIn(f'| {verdict} |', bars.line_of(row))

    def test_tells_of_cases_that_fail(self):
        command = [sys.executable, FOLDER / 'bars.py', '--small', '--runs', '1', '--only', 'pair']
        broken = self.folder / 'bin'
        broken.mkdir()
        (broken / 'strata-train').write_text('#!/bin/sh\necho it is broken\nexit 3\n')
        (broken / 'strata-train').chmod(0o755)
        done = self.run_program(command, STRATA_BIN=str(broken))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn('| failed |', done.stdout)
        self.assertIn('it is broken', done.stderr)

    def test_knows_its_cases(self):
        done = subprocess.run([sys.executable, str(FOLDER / 'bars.py'), '--only', 'planted,plantd'], text=True, capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn('there is no case plantd', done.stderr)
        self.assertEqual(len({case.name for case in bars.cases()}), len(bars.cases()))


if __name__ == '__main__':
    e2e.main()
