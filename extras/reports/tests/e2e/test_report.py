# SPDX-License-Identifier: Apache-2.0
"""strata-report and strata-watch on real runs: finished, killed, resumed, on one rank and on three."""
import html
import importlib.util
import json
import os
import re
import signal
import unittest

import strata_e2e as e2e
from test_killed import Job

SPEC = 'synthetic:kind=sbm,nodes=600,edges=6000,features=8,classes=3,seed=1'
SMALL = ['--fanouts', '3,2', '--hidden', '8', '--epochs', '3', '--log-every', '1', '--batch-size', '40']
NO_PACKAGES = [name for name in ('jinja2', 'plotly', 'rich') if importlib.util.find_spec(name) is None]


def words_of(page):
    """What a page says, without its scripts."""
    without = re.sub(r'<(script|style)\b.*?</\1>', ' ', page.read_text(), flags=re.DOTALL)
    without = re.sub(r'</?span\b[^>]*>', '', without)
    return ' '.join(html.unescape(re.sub(r'<[^>]+>', ' ', without)).split())


@unittest.skipIf(NO_PACKAGES, f'not installed: {", ".join(NO_PACKAGES)}')
class Report(e2e.Case):
    def draw(self, *runs, expect=0):
        page = self.folder / 'page.html'
        done = self.run_program([e2e.BIN / 'strata-report', *runs, '--output', page])
        self.assertEqual(done.returncode, expect, done.stderr)
        return words_of(page) if expect == 0 else done.stderr

    def check(self, output, text):
        """The page of a run has the numbers of its records."""
        for epoch in e2e.metrics(output, 'epoch'):
            self.assertIn(f' {epoch["loss"]:.4f} ', text)
        for evaluation in e2e.metrics(output, 'evaluation'):
            self.assertIn(f' {evaluation["test"]["accuracy"]:.4f} ', text)
        classes = e2e.metrics(output, 'classes')[-1]
        self.assertIn(f'Of {len(classes["labelled"])} classes among the test nodes', text)
        for row in e2e.metrics(output, 'run')[-1]['plan']:
            self.assertIn(f'{row["tensor"]} {row["stratum"]} {row["rows"]:,} ', text)

    def test_draws_a_finished_run(self):
        trace = self.folder / 'trace.json'
        output, _ = self.train(SPEC, *SMALL, '--trace', trace)
        text = self.draw(output)
        self.check(output, text)
        best = e2e.final(output)
        self.assertIn(f'{best["test"]["accuracy"]:.4f} at the best epoch, {best["best_epoch"]}', text)
        self.assertIn('State finished', text)
        self.assertIn('rank 0: sample', text)
        self.assertIn('One rank, which waits for no other.', text)

    def test_compares_seeds(self):
        output, _ = self.train(SPEC, *SMALL, '--seeds', '4,9')
        text = self.draw(output / 'seed-4', output / 'seed-9')
        self.assertIn('The runs differ in --seed.', text)
        for seed in (4, 9):
            self.assertIn(f'{e2e.final(output / f"seed-{seed}")["test"]["accuracy"]:.4f}', text)

    def test_tells_of_ranks_on_machines_of_their_own_and_of_a_resumed_run(self):
        graph = self.build(SPEC, 3)
        job = [*SMALL, '--ranks-per-machine', '1', '--replicate-graph', 'off']
        output, _ = self.train(graph, *job, ranks=3)
        self.train(graph, *job, '--epochs', '4', '--resume', ranks=3, output=output)
        text = self.draw(output)
        self.check(output, text)
        self.assertIn('4 of 4, resumed 1 time', text)
        features = e2e.metrics(output, 'exchange')[-1]['features']
        self.assertIn(f'feature rows {features["rows"]:,} ', text)
        last = e2e.metrics(output, 'ranks')[-1]['ranks']
        for rank in last:
            self.assertIn(f'{rank["peak_host_bytes"] / 2**20:.1f} MiB', text)

    def test_tells_of_a_run_that_lasts_and_of_one_that_was_killed(self):
        job = Job(self.folder, 'long', SPEC, [*SMALL[:-2], '--batch-size', '4', '--epochs', '1000'], ranks=1)
        job.wait_for(lambda: job.records('epoch') >= 2)
        self.assertIn('State running', self.draw(job.output))
        told = self.run_program([e2e.BIN / 'strata-watch', job.output, '--once'], COLUMNS='80').stdout
        self.assertIn('running, about', told)
        self.assertLessEqual(max(map(len, told.splitlines())), 80)
        os.kill(job.ranks[0], signal.SIGKILL)
        job.process.wait(timeout=60)
        text = self.draw(job.output)
        self.assertIn('ended without a word: killed, or failed', text)
        self.assertIn(f'strata-train --resume {job.output} goes on', text)
        self.assertEqual(self.run_program([e2e.BIN / 'strata-watch', job.output]).returncode, 1)

    def test_follows_a_run_to_its_end(self):
        output, _ = self.train(SPEC, *SMALL)
        done = self.run_program([e2e.BIN / 'strata-watch', output])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f'best {e2e.final(output)["valid"]["accuracy"]:.4f}', done.stdout)

    def test_refuses_what_is_no_run(self):
        self.assertIn('no such directory', self.draw(self.folder / 'nowhere', expect=2))
        self.assertIn('no metrics.jsonl', self.draw(self.folder, expect=2))

    def test_is_what_writes_for_other_programs(self):
        for option in '--report', '--tensorboard', '--mllog':
            done = self.run_program([e2e.BIN / 'strata-train', '--graph', SPEC, option, 'x'])
            self.assertEqual(done.returncode, 2)
            self.assertIn(f'unknown option {option}', done.stderr)
            self.assertIn('strata-report RUN writes it, from the folder of a run.', done.stderr)

    def test_writes_lines_for_mlperf(self):
        output, _ = self.train(SPEC, *SMALL)
        log = self.folder / 'run.log'
        self.assertEqual(self.run_program([e2e.BIN / 'strata-report', output, '--mllog', log]).returncode, 0)
        lines = [json.loads(line.removeprefix(':::MLLOG ')) for line in log.read_text().splitlines()]
        self.assertEqual([line['value'] for line in lines if line['key'] == 'eval_accuracy'],
                         [record['valid']['accuracy'] for record in e2e.metrics(output, 'evaluation')])
        starts = {line['key']: line['time_ms'] for line in lines if line['key'] in ('init_start', 'run_start', 'run_stop')}
        self.assertLessEqual(starts['init_start'], starts['run_start'])
        self.assertLess(starts['run_start'], starts['run_stop'])


if __name__ == '__main__':
    e2e.main()
