# SPDX-License-Identifier: Apache-2.0
"""launch/strata.sbatch and srun under a real Slurm on two hosts: warned, requeued, resumed bit for bit; and it gives up where nothing moves."""
import json
import re
import subprocess
import time
import unittest

import strata_e2e as e2e

CLUSTER = e2e.REPOSITORY / 'tests' / 'support' / 'slurm_cluster.sh'
SCRIPT = e2e.REPOSITORY / 'launch' / 'strata.sbatch'
SPEC = 'synthetic:kind=sbm,nodes=4000,edges=40000,features=24,classes=5,seed=3'
JOB = ['--fanouts', '5,5', '--hidden', '32', '--batch-size', '25', '--epochs', '40', '--log-every', '1', '--seed', '5', '--device', 'cpu']
SLOW_START = 'synthetic:kind=lognormal,nodes=4000000,edges=80000000,features=16,classes=5'
LIMIT = 480   # seconds for a job from its submission to its end: Slurm itself waits for up to a minute before a restart
INTERFACES = {'OMPI_MCA_oob_tcp_if_include': 'v0', 'OMPI_MCA_btl_tcp_if_include': 'v0'}


class Slurm(e2e.Case):
    def setUp(self):
        super().setUp()
        # It ends with its standard input, and so with this process, however that ends.
        self.cluster = subprocess.Popen(['sh', str(CLUSTER), '2', '1200'], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=e2e.ENVIRONMENT)
        self.addCleanup(self.end_cluster)
        line = self.cluster.stdout.readline()
        if not line.startswith('ready'):
            self.assertEqual(self.cluster.wait(timeout=60), e2e.SKIPPED, line)
            self.skipTest(e2e.reason_to_skip(line))
        _, self.enter, self.conf = line.split()

    def end_cluster(self):
        self.cluster.stdin.close()
        self.cluster.wait(timeout=60)
        self.cluster.stdout.close()

    def on_first_host(self, *command, expect=0, timeout=60):
        words = ' '.join(map(str, command))   # no word has a space
        environment = dict(e2e.ENVIRONMENT, **INTERFACES, SLURM_CONF=self.conf, STRATA_HOME=str(SCRIPT.parent), STRATA_BIN=str(e2e.BIN))
        done = subprocess.run([self.enter, 'h0', f'cd {self.folder} && {words}'], env=environment, text=True, capture_output=True, timeout=timeout)
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout)
        return done.stdout

    def submit(self, nodes, output, *options):
        printed = self.on_first_host('sbatch', '--parsable', f'--nodes={nodes}', '--ntasks-per-node=1', f'--output={output}.log', SCRIPT,
                                     '--output', output, *options)
        return printed.strip()

    def state(self, job):
        fields = self.on_first_host('scontrol', 'show', 'job', job)
        return re.search(r'JobState=(\w+)', fields).group(1), int(re.search(r'Restarts=(\d+)', fields).group(1))

    def wait_for(self, job, output, reached):
        """Until reached() holds; the job must not end before. Returns what it holds."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            result = reached()
            if result:
                return result
            time.sleep(0.2)
        self.fail(f'{self.state(job)}; {self.log(output)}')

    def wait_for_end(self, job, output):
        """Its last state, and how often it was started again."""
        def ended():
            state, restarts = self.state(job)
            return (state, restarts) if state in ('COMPLETED', 'FAILED', 'CANCELLED', 'NODE_FAIL') else None
        return self.wait_for(job, output, ended)

    def script_started(self, output):
        """Whether it runs strata-run, before which it handles signals; whether strata-train runs makes no difference."""
        found = subprocess.run(['pgrep', '-f', f'strata-run .*--output {output} '], text=True, capture_output=True)
        return found.returncode == 0

    def warn(self, job):
        self.on_first_host('scancel', '--signal=USR1', '--batch', job)

    def log(self, output):
        path = output.with_name(output.name + '.log')
        return path.read_text() if path.exists() else 'no log yet'

    def steps(self, output):
        metrics = output / 'metrics.jsonl'
        return metrics.read_text().count('"step"') if metrics.exists() else 0

    @unittest.skipUnless((e2e.BIN / 'strata-doctor').exists(), 'a build without extras has no doctor')
    def test_srun_starts_the_doctor_on_every_host(self):
        graph, path = self.build(SPEC, 2), self.folder / 'found.json'
        missing = self.folder / 'nowhere'
        srun = ['srun', '--mpi=pmix', '--nodes=2', '--ntasks-per-node=1', '--kill-on-bad-exit=0', e2e.BIN / 'strata-doctor', '--quick', '--json', path]
        # A warning, too, is all well here: the hosts share this machine with other tests.
        told = self.on_first_host(*srun, '--graph', graph, '||', 'test', '$?', '=', '1', timeout=120)
        self.assertIn('2 ranks on 2 hosts', told)
        record = json.loads(path.read_text())
        self.assertEqual(record['hosts'], ['h0', 'h1'])
        self.assertLessEqual(record['exit_code'], 1, told)
        self.assertEqual([f for f in record['findings'] if f['check'] in ('versions', 'storage')], [], told)
        self.assertEqual(record['facts']['network']['carriers'], ['v0'] * 2)
        self.on_first_host(*srun, '--graph', missing, expect=2, timeout=120)
        self.assertIn(('failure', 'storage'), [(f['level'], f['check']) for f in json.loads(path.read_text())['findings']])

    def test_requeued_and_resumed_bit_for_bit(self):
        graph = self.build(SPEC, 2)
        whole, stopped = self.folder / 'whole', self.folder / 'stopped'
        job = self.submit(2, whole, '--graph', graph, *JOB)
        self.assertEqual(self.wait_for_end(job, whole), ('COMPLETED', 0), self.log(whole))
        job = self.submit(2, stopped, '--graph', graph, *JOB)
        self.wait_for(job, stopped, lambda: self.steps(stopped) >= 10)
        self.warn(job)
        self.wait_for(job, stopped, lambda: self.state(job)[1] == 1)
        self.assertTrue((stopped / 'checkpoint.safetensors').exists(), self.log(stopped))
        self.assertLess(self.steps(stopped), self.steps(whole), 'it was warned too late to be stopped')
        self.assertEqual(self.wait_for_end(job, stopped), ('COMPLETED', 1), self.log(stopped))
        self.assertIn('back into the queue', self.log(stopped))
        self.assertFalse((stopped / 'restarts').exists())
        self.assertEqual(e2e.metrics(whole, 'run')[0]['machines'], 2)
        for name in ('model.safetensors', 'checkpoint.safetensors'):
            self.assertEqual((whole / name).read_bytes(), (stopped / name).read_bytes(), name)
        self.assertEqual(e2e.step_losses(whole), e2e.step_losses(stopped))
        self.assertEqual(e2e.final(whole)['test'], e2e.final(stopped)['test'])

    def test_gives_up_where_no_restart_gets_on(self):
        """Warned while it loads, each time: there is no checkpoint to resume from, and none comes."""
        output = self.folder / 'slow'
        job = self.submit(1, output, '--graph', SLOW_START, '--fanouts', '5,5', '--device', 'cpu')
        for starts in (1, 2, 3):
            self.wait_for(job, output, lambda: self.state(job) == ('RUNNING', starts - 1) and self.script_started(output))
            self.warn(job)
            self.wait_for(job, output, lambda: self.state(job) != ('RUNNING', starts - 1))
        state, restarts = self.wait_for_end(job, output)
        self.assertEqual((state, restarts), ('FAILED', 2), self.log(output))
        self.assertEqual(self.log(output).count('back into the queue'), 2, self.log(output))
        self.assertIn('this job gives up', self.log(output))
        self.assertNotIn('there is no checkpoint', self.log(output))


class Script(e2e.Case):
    """What launch/strata.sbatch makes of a folder, with a strata-run that only writes down its options; without Slurm."""

    def setUp(self):
        super().setUp()
        self.output = self.folder / 'run'
        self.called = self.folder / 'called'

    def start(self, job, restarts, *options, work='true'):
        """Runs the script; `work` stands for the training. Returns what strata-train was given after its own options."""
        run = self.folder / 'strata-run'
        run.write_text(f'#!/bin/bash\necho "$@" > {self.called}\n{work}\n')
        run.chmod(0o755)
        self.run_program(['bash', SCRIPT, '--output', self.output, *options], STRATA_HOME=str(self.folder), SLURM_JOB_ID=str(job),
                         SLURM_RESTART_COUNT=str(restarts), SLURM_SUBMIT_DIR=str(self.folder))
        return self.called.read_text().split(f'{self.output}', 1)[1].split()

    def test_leaves_the_run_of_another_job_alone(self):
        self.output.mkdir()
        for name in ('metrics.jsonl', 'model.safetensors', 'checkpoint.safetensors'):
            (self.output / name).write_text('precious')
            for restarts in (0, 1, 2):
                self.assertEqual(self.start(41, restarts), [], name)
        self.assertEqual(self.start(41, 0, '--overwrite', work='kill -9 $PPID'), ['--overwrite'])
        self.assertEqual(self.start(42, 1), [], 'the folder is that of job 41')

    def test_replaces_or_resumes_what_its_own_start_left(self):
        node_fails = f'touch {self.output}/metrics.jsonl; kill -9 $PPID'
        self.assertEqual(self.start(51, 0, work=node_fails), [])
        self.assertEqual(self.start(51, 1, work=node_fails), ['--overwrite'])
        (self.output / 'checkpoint.safetensors').write_text('of job 51')
        self.assertEqual(self.start(51, 2), ['--resume'])
        self.assertFalse((self.output / 'restarts').exists(), 'the run is over')

    def test_takes_a_folder_that_no_start_has_reached(self):
        self.assertEqual(self.start(61, 1, work=f'touch {self.output}/metrics.jsonl; kill -9 $PPID'), [])
        self.assertEqual(self.start(61, 2), ['--overwrite'])


if __name__ == '__main__':
    e2e.main()
