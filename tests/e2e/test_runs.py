# SPDX-License-Identifier: Apache-2.0
"""Folders of runs: where they are, what they tell, how a run goes on, and what its model is used for."""
import json
import re
import shutil
import socket
import subprocess
import tempfile

import numpy as np

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=600,edges=6000,features=12,classes=4,seed=3'
DOCTOR = e2e.BIN / 'strata-doctor'   # an extra
JOB = ['--fanouts', '5,5', '--hidden', '16', '--batch-size', '100', '--epochs', '3', '--lr', '0.01', '--device', 'cpu']


class Runs(e2e.Case):
    def setUp(self):
        super().setUp()
        self.graph = self.build(SPEC, 2)

    def call(self, *words, ranks=1, expect=0, **environment):
        """strata-train in the test's folder; what it printed on stdout and stderr."""
        command = [e2e.MPIRUN, '-n', ranks, '--oversubscribe', '--bind-to', 'none', e2e.BIN / 'strata-train', *words]
        done = subprocess.run([str(word) for word in command], cwd=self.folder, text=True, capture_output=True, timeout=120,
                              stdin=subprocess.DEVNULL, env=dict(e2e.ENVIRONMENT, OMPI_MCA_orte_execute_quiet='1', **environment))
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout)
        return done

    def run_folders(self):
        return sorted(path.name for path in (self.folder / 'runs').iterdir())


class Folders(Runs):
    def test_are_numbered_and_the_last_is_linked(self):
        for number in (1, 2):
            self.call('--graph', 'parts2', *JOB, ranks=2)
            self.assertEqual(self.run_folders()[0], 'last')
            self.assertRegex(self.run_folders()[number], rf'^sage-\d{{4}}-\d\d-\d\d-{number}$')
            self.assertEqual((self.folder / 'runs/last').resolve().name, self.run_folders()[number])
        self.call('--graph', 'parts2', '--model', 'gcn', *JOB)
        self.assertRegex((self.folder / 'runs/last').resolve().name, r'^gcn-.*-1$')

    def test_of_refused_runs_are_gone(self):
        self.call('--graph', 'nowhere', *JOB, ranks=2, expect=2)
        self.call('--graph', 'nowhere', *JOB, '--output', 'out', ranks=2, expect=2)
        self.assertFalse((self.folder / 'out').exists())
        self.assertEqual(self.run_folders(), [])
        self.call('--graph', 'parts2', *JOB, '--output', 'out', ranks=2)
        self.call('--graph', 'parts2', *JOB)
        self.call('--graph', 'nowhere', *JOB, expect=2)
        self.assertEqual(len(self.run_folders()), 2)
        self.assertRegex((self.folder / 'runs/last').resolve(strict=True).name, r'^sage-.*-1$')

    def test_keep_what_is_in_them(self):
        self.call('--graph', 'parts2', *JOB, '--output', 'out')
        before = {path.name: path.read_bytes() for path in (self.folder / 'out').iterdir()}
        done = self.call('--graph', 'parts2', *JOB, '--output', 'out', expect=2)
        for words in ('out has a run already', '--resume out', '--overwrite', 'another folder'):
            self.assertIn(words, done.stderr)
        self.assertEqual(before, {path.name: path.read_bytes() for path in (self.folder / 'out').iterdir()})
        (self.folder / 'out/notes.txt').write_text('mine')
        self.call('--graph', 'parts2', *JOB, '--epochs', '1', '--output', 'out', '--overwrite')
        self.assertEqual(e2e.final(self.folder / 'out')['epochs'], 1)
        self.assertEqual((self.folder / 'out/notes.txt').read_text(), 'mine')

    def test_may_be_named_for_their_files_before_they_are_there(self):
        for output, place in (('new', 'new'), ('deep/./er/', self.folder / 'deep/er'), ('other/one', 'other')):
            trace = f'{place}/trace.json'
            self.call('--graph', 'parts2', *JOB, '--epochs', '1', '--output', output, '--trace', trace, ranks=2)
            events = json.loads((self.folder / trace).read_text())['traceEvents']
            self.assertEqual({event['pid'] for event in events}, {0, 1})

    def test_are_gone_where_their_files_were_named_in_vain(self):
        for place in 'new/trace.json', 'new/deeper/trace.json', 'new2/trace.json':
            self.call('--graph', 'nowhere', *JOB, '--output', 'new', '--trace', place, expect=2)
            self.assertEqual([path.name for path in self.folder.iterdir()], ['parts2'])
        done = self.call('--graph', 'parts2', *JOB, '--output', 'new', '--trace', 'new2/trace.json', expect=2)
        self.assertIn('new2: no such directory', done.stderr)

    def test_keep_their_own_files(self):
        for name in 'metrics.jsonl', 'train.log':
            done = self.call('--graph', 'parts2', *JOB, '--output', 'new', '--trace', f'new/./{name}', expect=2)
            self.assertIn(f'--trace: new/./{name} is a file that the run writes itself', done.stderr)

    def test_are_not_among_parts(self):
        before = sorted(path.name for path in self.graph.iterdir())
        for place in ('parts2', 'parts2/run', 'parts2/a/b'):
            done = self.call('--graph', 'parts2', *JOB, '--output', place, expect=2)
            self.assertIn('is a directory of part files', done.stderr)
        self.assertEqual(before, sorted(path.name for path in self.graph.iterdir()))

    def test_tell_the_whole_story(self):
        done = self.call('--graph', 'parts2', *JOB, '--class-weights', 'balanced', '--output', 'one', ranks=2)
        record = e2e.metrics(self.folder / 'one', 'run')[0]
        self.assertEqual(record['options']['hidden'], 16)
        self.assertEqual(record['options']['fanouts'], [5, 5])
        self.assertIn('--class-weights balanced', record['command'])
        self.assertEqual(len(record['hosts']), 1)
        self.assertRegex(record['strata'], r'^\d+\.\d+\.\d+')
        for library in (r'libtorch \d+\.\d+', r'.*MPI.*\d+\.\d+', r'HDF5 \d+\.\d+\.\d+'):
            self.assertEqual(len([name for name in record['libraries'] if re.fullmatch(library + '.*', name)]), 1, record['libraries'])
        self.assertRegex(record['parts_by'], r'^strata-partition \d+\.\d+\.\d+.* \(METIS \d+\.\d+\.\d+, HDF5 \d+\.\d+\.\d+\)$')
        config = (self.folder / 'one/config.toml').read_text()
        self.assertRegex(config, r'\nhidden = 16  # command line\n')
        self.assertRegex(config, r'\noptimizer = "adam"  # default\n')
        self.assertIn('strata-train --graph parts2', config)
        self.assertIn(f'# Strata {record["strata"]}; {", ".join(record["libraries"])}\n', config)
        self.assertIn(f'# parts by {record["parts_by"]}\n', config)
        log = (self.folder / 'one/train.log').read_text()
        for line in done.stdout.splitlines():
            self.assertIn(line, log)
        self.assertIn('graph   ', done.stdout)
        # The file gives the same run, bit for bit.
        self.call('--config', 'one/config.toml', '--output', 'two', ranks=2)
        self.assertEqual((self.folder / 'one/model.safetensors').read_bytes(), (self.folder / 'two/model.safetensors').read_bytes())
        self.assertEqual(record['options'], dict(e2e.metrics(self.folder / 'two', 'run')[0]['options'], output='one'))


class WithoutMpirun(Runs):
    """In a step of Slurm, for which Debian's Open MPI has no PMI."""

    def step(self, tasks, *words, **more):
        host = socket.gethostname()
        step = dict(SLURM_JOB_ID='78', SLURM_JOBID='78', SLURM_NODELIST=host, SLURM_JOB_NODELIST=host, SLURM_STEP_NODELIST=host, SLURM_PROCID='0',
                    SLURM_LOCALID='0', SLURM_NODEID='0', SLURM_STEPID='3', SLURM_STEP_ID='3', SLURM_STEP_NUM_TASKS=str(tasks),
                    SLURM_TASKS_PER_NODE=str(tasks), SLURM_STEP_TASKS_PER_NODE=str(tasks))
        return self.run_program(words, timeout=60, **step, **more)

    def test_one_task_is_one_rank(self):
        train = [e2e.BIN / 'strata-train', '--graph', self.graph, *JOB]
        for more in ({}, {'PMIX_RANK': '0', 'PMIX_NAMESPACE': 'slurm.pmix.78.3'}, {'PMI_RANK': '0', 'PMI_SIZE': '1', 'PMI_FD': '9'}):
            done = self.step(1, *train, '--output', self.folder / f'run{len(more)}', **more)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            self.assertIn('ranks   1 rank on 1 machine', done.stdout)
        done = self.step(1, e2e.BIN / 'strata-plan', *train[1:])
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        if DOCTOR.exists():
            done = self.step(1, DOCTOR, '--quick')
            self.assertIn('1 rank on 1 host', e2e.joined(done.stdout), done.stderr)

    def test_several_tasks_are_refused_with_a_remedy(self):
        for more in ({}, {'PMI_RANK': '0', 'PMI_SIZE': '3', 'PMI_FD': '9'}):
            done = self.step(3, e2e.BIN / 'strata-train', '--graph', self.graph, *JOB, '--output', self.folder / 'never', **more)
            self.assertNotEqual(done.returncode, 0)
            last = ' '.join(done.stderr.splitlines()[-2:])
            self.assertIn('PMI_SIZE=3' if more else 'SLURM_STEP_NUM_TASKS=3', last, done.stderr)
            self.assertIn('mpirun', last)
        self.assertFalse((self.folder / 'never').exists())


class Limits(Runs):
    def under(self, limit, *words):
        return self.run_program(['bash', '-c', f'ulimit {limit} && exec "$@"', '-', *words], timeout=60)

    def test_parts_may_be_more_than_open_files(self):
        graph, config = self.build(SPEC, 150, 'many', '--method', 'random'), self.folder / 'run.toml'
        config.write_text('[model]\nfanouts = [5, 5]\n')
        job = ['--graph', graph, *JOB]
        for program, options in (('strata-train', ['--output', self.folder / 'run']),
                                 ('strata-train', ['--output', self.folder / 'early', '--start-early']), ('strata-plan', [])):
            done = self.under('-n 100', e2e.BIN / program, *job, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(e2e.final(self.folder / 'run')['test'], e2e.final(self.folder / 'early')['test'])
        if DOCTOR.exists():
            done = self.under('-n 100', DOCTOR, '--quick', '--graph', graph, '--config', config)
            self.assertNotIn('Too many open files', done.stdout + done.stderr)
            self.assertIn('loading takes', e2e.joined(done.stdout))

    def test_files_that_grow_too_large_are_named(self):
        done = self.under('-f 4', e2e.BIN / 'strata-train', '--graph', self.graph, *JOB, '--hidden', '256', '--output', self.folder / 'run')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('ulimit -f', done.stderr)


class Resuming(Runs):
    def test_needs_no_other_option(self):
        self.call('--graph', 'parts2', *JOB, '--epochs', '5', '--output', 'whole', ranks=2)
        self.call('--graph', 'parts2', *JOB, ranks=2)
        self.call('--resume', 'runs/last', '--epochs', '5', ranks=2)
        self.assertEqual((self.folder / 'whole/model.safetensors').read_bytes(),
                         (self.folder / 'runs/last/model.safetensors').read_bytes())
        self.assertEqual(len(self.run_folders()), 2, 'the run and the link')
        config = (self.folder / 'runs/last/config.toml').read_text()
        self.assertRegex(config, r'\nepochs = 5  # command line\n')
        self.assertRegex(config, r'\nhidden = 16  # runs/.*config.toml\n')
        self.call('--resume', 'runs/last', ranks=2)   # it is complete

    def test_compares_what_is_given_again(self):
        self.call('--graph', 'parts2', *JOB, '--output', 'out')
        done = self.call('--resume', 'out', '--hidden', '32', '--lr', '0.5', '--dropout', '0.5', expect=2)
        self.assertIn('--hidden 32 instead of 16, --lr 0.5 instead of 0.01', done.stderr)
        self.assertNotIn('--dropout', done.stderr)
        done = self.call('--resume', 'out', '--epochs', '2', expect=2)
        self.assertIn('--epochs 2: the run has done 3 already', done.stderr)
        done = self.call('--resume', 'out', '--output', 'elsewhere', expect=2)
        self.assertIn('--resume out contradicts --output elsewhere', done.stderr)
        done = self.call('--resume', 'nowhere', '--graph', 'parts2', expect=2)
        self.assertIn('--resume nowhere: no such directory', done.stderr)
        self.assertFalse((self.folder / 'nowhere').exists())


class Models(Runs):
    """Each test has a copy of the run that the first one trains."""
    run_folder = None

    def setUp(self):
        super().setUp()
        if Models.run_folder is None:
            self.call('--graph', 'parts2', *JOB, '--output', 'out', ranks=2)
            Models.logits = np.load(self.predict(self.folder / 'out', self.folder / 'parts2', ranks=2))
            kept = tempfile.TemporaryDirectory(prefix='strata-e2e-')
            self.addClassCleanup(kept.cleanup)
            Models.run_folder = shutil.copytree(self.folder / 'out', f'{kept.name}/out')
        else:
            shutil.copytree(Models.run_folder, self.folder / 'out')

    def test_predict(self):
        other = self.build(SPEC, 3)
        for graph, ranks, options in (('parts2', 1, []), (other.name, 2, []), ('parts2', 2, ['--ranks-per-machine', '1'])):
            self.call('predict', 'out', '--graph', graph, '--output', 'again.npy', '--device', 'cpu', *options, ranks=ranks)
            np.testing.assert_allclose(np.load(self.folder / 'again.npy'), self.logits, rtol=1e-5, atol=1e-5)
        ids = np.array([599, 0, 7, 7], dtype=np.int64)
        np.save(self.folder / 'ids.npy', ids)
        self.call('predict', 'out/model.safetensors', '--graph', 'parts2', '--nodes', 'ids.npy', '--output', 'some.npy', '--device', 'cpu')
        np.testing.assert_allclose(np.load(self.folder / 'some.npy'), self.logits[ids], rtol=1e-5, atol=1e-5)
        done = self.call('predict', 'out', '--graph', 'parts2', '--split', 'test', '--output', 'test.csv', '--device', 'cpu', ranks=2)
        self.assertIn('test.csv', done.stdout)
        header, *lines = (self.folder / 'test.csv').read_text().splitlines()
        self.assertEqual(header, 'node,class0,class1,class2,class3')
        nodes = [int(line.split(',')[0]) for line in lines]
        self.assertEqual(nodes, sorted(nodes))
        self.assertEqual(len(nodes), e2e.final(self.folder / 'out')['test']['nodes'])
        values = np.array([[float(value) for value in line.split(',')[1:]] for line in lines])
        np.testing.assert_allclose(values, self.logits[nodes], rtol=1e-5, atol=1e-5)
        self.assertEqual(sorted(path.name for path in self.folder.glob('*.all*')), [])

    def test_evaluate(self):
        expected = e2e.final(self.folder / 'out')
        done = self.call('evaluate', 'out', '--graph', 'parts2', '--device', 'cpu', ranks=2)
        for split in ('valid', 'test'):
            self.assertIn(f'{expected[split]["accuracy"]:.4f}', done.stdout)
        other = self.build(SPEC.replace('seed=3', 'seed=4'), 2, 'other')
        self.call('evaluate', 'out', '--graph', other.name, '--device', 'cpu')
        self.assertEqual(json.loads((self.folder / 'out/metrics.jsonl').read_text().splitlines()[-1])['type'], 'final', 'left alone')

    def test_of_other_columns_are_refused(self):
        wider = self.build(SPEC.replace('features=12', 'features=13'), 1, 'wider')
        done = self.call('predict', 'out', '--graph', wider.name, '--output', 'x.npy', ranks=2, expect=2)
        self.assertIn('reads 12 feature columns, but', done.stderr)
        more = self.build(SPEC.replace('classes=4', 'classes=5'), 1, 'more')
        done = self.call('evaluate', 'out', '--graph', more.name, expect=2)
        self.assertIn('distinguishes 4 classes, but', done.stderr)

    def test_begin_others(self):
        self.call('--graph', 'parts2', *JOB, '--lr', '1e-12', '--dropout', '0', '--epochs', '1', '--init-from', 'out', '--output', 'tuned', ranks=2)
        np.testing.assert_allclose(np.load(self.predict(self.folder / 'tuned', self.folder / 'parts2')), self.logits, rtol=1e-3, atol=1e-3)
        done = self.call('--graph', 'parts2', *JOB, '--model', 'gcn', '--init-from', 'out', expect=2)
        self.assertIn('is a model sage, not gcn', done.stderr)
        done = self.call('--graph', 'parts2', *JOB, '--hidden', '32', '--init-from', 'out', expect=2)
        self.assertIn('model.safetensors', done.stderr)

    def test_of_several_seeds(self):
        done = self.call('--graph', 'parts2', *JOB, '--seeds', '0,1,2', '--output', 'many', ranks=2)
        tests = [e2e.final(self.folder / f'many/seed-{seed}')['test']['accuracy'] for seed in range(3)]
        self.assertGreater(len(set(tests)), 1)
        self.assertIn(f'test {np.mean(tests):.4f} ± {np.std(tests, ddof=1):.4f}', done.stdout)
        self.assertEqual([e2e.metrics(self.folder / f'many/seed-{seed}', 'run')[0]['options']['seed'] for seed in range(3)], [0, 1, 2])

    def test_predictions_may_be_text(self):
        self.call('predict', 'out', '--graph', 'parts2', '--output', 'all.csv', ranks=2)
        lines = (self.folder / 'all.csv').read_text().splitlines()
        self.assertEqual(len(lines), 601)
        np.testing.assert_allclose(np.array([float(value) for value in lines[8].split(',')[1:]]), self.logits[7], rtol=1e-5, atol=1e-5)


class Terminal(Runs):
    def test_has_eighty_columns(self):
        done = self.call('--graph', 'parts2', *JOB, ranks=2)
        for line in (done.stdout + done.stderr).splitlines():
            self.assertLessEqual(len(line), 80, line)
        epochs = [line for line in done.stderr.splitlines() if line.startswith('epoch ')]
        self.assertEqual(len(epochs), 3, done.stderr)
        for line in epochs:
            self.assertRegex(line, r'^epoch \d/3  loss \d\.\d{4}  valid \d\.\d{4}  test \d\.\d{4} +[\d.]+ [mu]?s  [\d.]+k? seeds/s( \*)?$')
        self.assertIn(' *', epochs[0])
        self.assertIn('2 ranks on 1 machine,', done.stdout)
        self.assertNotIn('GPU', done.stdout)
        self.assertRegex(done.stdout.splitlines()[-3], r'^model   runs/sage-.*/model.safetensors, of epoch \d$')

    def test_may_be_silent(self):
        done = self.call('--graph', 'parts2', *JOB, '--log-level', 'off', ranks=2)
        self.assertEqual(done.stdout + done.stderr, '')

    def test_shows_more_if_asked(self):
        done = self.call('--graph', 'parts2', *JOB, '--log-level', 'debug')
        self.assertEqual(len(re.findall(r'^debug: +epoch \d: train accuracy .*sample .*gather', done.stderr, re.M)), 3, done.stderr)

    def test_help_is_short_and_wrapped(self):
        short = subprocess.run([e2e.BIN / 'strata-train', '--help'], text=True, capture_output=True).stdout
        full = subprocess.run([e2e.BIN / 'strata-train', '--help', 'all'], text=True, capture_output=True,
                              env=dict(e2e.ENVIRONMENT, COLUMNS='100')).stdout
        self.assertLessEqual(max(map(len, short.splitlines())), 80)
        self.assertLessEqual(max(map(len, full.splitlines())), 100)
        self.assertLess(short.count('\n  --'), 26)
        self.assertGreater(full.count('\n  --'), 50)
        self.assertIn('--fanouts', short)
        self.assertNotIn('--label-smoothing', short)
        self.assertIn('--label-smoothing', full)

    def test_tells_versions(self):
        told = [subprocess.run([e2e.BIN / 'strata-train', *words], text=True, capture_output=True).stdout
                for words in (['--version'], ['--version', 'all'])]
        self.assertRegex(told[0], r'^strata-train \d+\.\d+\.\d+(\+g[0-9a-f]{10}(\.dirty)?)?\n$')
        self.assertTrue(told[1].startswith(told[0]))
        for library in 'libtorch', 'MPI', 'HDF5':
            self.assertIn(library, told[1])
        self.assertIn('METIS', subprocess.run([e2e.BIN / 'strata-partition', '--version'], text=True, capture_output=True).stdout)

    def test_colors_warnings_if_asked(self):
        novalid = self.build(SPEC + ',valid=0', 1, 'novalid')
        for environment, colored in (({'CLICOLOR_FORCE': '1'}, True), ({'CLICOLOR_FORCE': '1', 'NO_COLOR': '1'}, False), ({}, False)):
            done = self.call('--graph', novalid.name, *JOB, **environment)
            self.assertIn('has no validation nodes', done.stderr)
            self.assertNotIn('nan', done.stderr + done.stdout)
            self.assertEqual('\x1b[' in done.stderr, colored, environment)


if __name__ == '__main__':
    e2e.main()
