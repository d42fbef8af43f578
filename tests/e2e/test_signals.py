# SPDX-License-Identifier: Apache-2.0
"""Signals at any moment: nothing is killed, nothing is lost, and what stays for ever is ended by launch/strata-run."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=4000,edges=40000,features=24,classes=5,seed=3'
JOB = ['--fanouts', '5,5', '--hidden', '32', '--batch-size', '25', '--epochs', '5000', '--eval-every', '5000', '--log-every', '1',
       '--device', 'cpu']
LONG_LOADING = ['--graph', 'synthetic:kind=lognormal,nodes=8000000,edges=160000000,features=16,classes=5', '--fanouts', '5,5', '--device',
                'cpu']
# A step of a second on two cores: matrix products of some gigaflops.
LONG_STEP = ['--graph', 'synthetic:kind=sbm,nodes=20000,edges=200000,features=64,classes=5,seed=3', '--fanouts', '5,5,5', '--hidden', '768',
             '--batch-size', '10000', '--epochs', '5000', '--eval-every', '5000', '--log-every', '1', '--device', 'cpu']
STOPPED, STOPPED_UNSAVED = 75, 76
RUN = e2e.REPOSITORY / 'launch' / 'strata-run'
CLUSTER = e2e.REPOSITORY / 'tests' / 'support' / 'netns_cluster.sh'
ENVIRONMENT = dict(e2e.ENVIRONMENT, STRATA_BIN=str(e2e.BIN))


class Signals(e2e.Case):
    def start(self, command, **options):
        """A process in the background, and where its output goes."""
        log = self.folder / f'log{len(list(self.folder.glob("log*")))}'
        with log.open('w') as stream:   # a pipe that nobody reads would fill and stop the run
            process = subprocess.Popen([str(word) for word in command], env=ENVIRONMENT, stdout=stream, stderr=subprocess.STDOUT, **options)
        self.addCleanup(self.end, process)
        return process, log

    def end(self, process):
        if process.poll() is None:
            process.kill()
            process.wait()

    def wait_for(self, process, log, reached):
        if e2e.wait_until(lambda: reached() or process.poll() is not None, log) and process.poll() is not None:
            self.fail(f'exit code {process.returncode}: {log.read_text()}')

    def wait_for_steps(self, process, log, output, number):
        metrics = output / 'metrics.jsonl'
        self.wait_for(process, log, lambda: metrics.exists() and metrics.read_text().count('"step"') >= number)

    def train_command(self, *options):
        output = self.folder / f'run{len(list(self.folder.glob("run*")))}'
        output.mkdir()
        return [e2e.BIN / 'strata-train', *options, '--output', output], output

    def stop(self, process, log, number=signal.SIGUSR1):
        """(exit code, what was printed)"""
        process.send_signal(number)
        return process.wait(timeout=e2e.PATIENCE), log.read_text()

    def ranks_of(self, mpirun, number):
        found = []
        while len(found) < number:
            self.assertIsNone(mpirun.poll())
            children = subprocess.run(['pgrep', '-P', str(mpirun.pid), '-x', 'strata-train'], text=True, capture_output=True)
            found = [int(pid) for pid in children.stdout.split()]
        return found

    def check_shared_memory(self, pids):
        left = [file for pid in pids for file in pathlib.Path('/dev/shm').glob(f'strata-{pid}-*') if file.stat().st_size]
        self.assertEqual(left, [])


class Start(Signals):
    """While libtorch is loaded, which takes a second."""

    def seconds_to_load(self):
        start = time.monotonic()
        self.assertEqual(self.run_program([e2e.BIN / 'strata-train', '--version']).returncode, 0)
        return time.monotonic() - start

    def test_signals_are_held_before_libtorch_is_loaded(self):
        """What users call loads no libtorch, and what it starts finds the signals blocked."""
        self.assertFalse('torch' in self.run_program(['ldd', e2e.BIN / 'strata-train']).stdout, 'it loads libtorch')
        for name in ('bin', 'libexec'):
            (self.folder / name).mkdir()
        shutil.copy(e2e.BIN / 'strata-train', self.folder / 'bin')
        told = self.folder / 'libexec' / 'strata-train'   # a shell would unblock them
        told.write_text(f'#!{sys.executable}\nimport re, sys\nprint(*sys.argv[1:])\n'
                        'print(*re.findall("SigBlk.*", open("/proc/self/status").read()))\n')
        told.chmod(0o755)
        done = self.run_program([self.folder / 'bin' / 'strata-train', '--graph', 'x y'])
        told, blocked = done.stdout.splitlines()
        self.assertEqual(told, '--graph x y')
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            self.assertTrue(int(blocked.split()[1], 16) & 1 << (number - 1), number)

    def test_any_moment(self):
        loading = self.seconds_to_load()
        for share in (0, 0.3, 0.6, 0.9, 1.2, 1.6, 2.5):
            command, output = self.train_command('--graph', SPEC, *JOB)
            process, log = self.start(command)
            number = signal.SIGTERM if share == 0.6 else signal.SIGUSR1
            self.wait_for(process, log, lambda: e2e.heeds(process, number))   # until then there is only the system's loader
            time.sleep(share * loading)
            code, text = self.stop(process, log, number)
            self.assertEqual(code, STOPPED, text)
            stepped = (output / 'metrics.jsonl').exists() and e2e.metrics(output, 'step')
            self.assertEqual((output / 'checkpoint.safetensors').exists(), bool(stepped), text)

    def test_the_program_beside_it_is_started_whatever_PATH_says(self):
        decoy = self.folder / 'strata-train'
        decoy.write_text('#!/bin/sh\necho decoy\n')
        decoy.chmod(0o755)
        done = subprocess.run(['strata-train', '--version'], executable=e2e.BIN / 'strata-train', text=True, capture_output=True,
                              env=dict(ENVIRONMENT, PATH=f'{self.folder}:{os.environ["PATH"]}'))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('decoy', done.stdout)


class Work(Signals):
    def test_a_long_step_is_ended_first(self):
        command, output = self.train_command(*LONG_STEP)
        process, log = self.start(command)
        self.wait_for_steps(process, log, output, 1)
        before = len(e2e.steps(output))
        code, text = self.stop(process, log)
        self.assertEqual(code, STOPPED, text)
        self.assertGreater(len(e2e.steps(output)), before, 'the step that it was in is lost')
        self.assertTrue((output / 'checkpoint.safetensors').exists())

    def test_loading_ends_at_once(self):
        for ranks in (1, 2):
            command, output = self.train_command(*LONG_LOADING)
            process, log = self.start([e2e.MPIRUN, '-n', ranks, '--oversubscribe', '--bind-to', 'none', *command])
            self.wait_for(process, log, lambda: (output / 'train.log').exists())   # all options were taken
            pids = self.ranks_of(process, ranks)
            time.sleep(0.5)
            code, text = self.stop(process, log)
            self.assertEqual(code, STOPPED, text)
            self.assertIn('before the first step', text)
            self.assertFalse((output / 'metrics.jsonl').exists(), 'it had loaded before it was stopped')
            self.check_shared_memory(pids)

    def test_says_which_ranks_are_gone(self):
        command, output = self.train_command('--graph', self.build(SPEC, 3), *JOB)
        process, log = self.start([e2e.MPIRUN, '-n', 3, '--oversubscribe', '--bind-to', 'none', *command])
        self.wait_for_steps(process, log, output, 2)
        stopped = self.ranks_of(process, 3)[2]
        os.kill(stopped, signal.SIGSTOP)
        code, text = self.stop(process, log)
        self.assertEqual(code, STOPPED_UNSAVED, text)
        self.assertRegex(text, r'rank \d \(host [^)]+\) has been silent')
        self.assertIn('no checkpoint could be written', text)


class Run(Signals):
    """launch/strata-run"""

    def test_a_signal_at_the_start(self):
        graph = self.build(SPEC, 2)
        for seconds in (0, 0.1, 0.3, 1, 2):
            command, _ = self.train_command('--graph', graph, *JOB)
            process, log = self.start([RUN, '-n', 2, '--', *command[1:]])
            self.wait_for(process, log, lambda: e2e.heeds(process, signal.SIGUSR1))   # until then the shell starts
            time.sleep(seconds)
            code, text = self.stop(process, log)
            self.assertEqual(code, STOPPED, text)

    def test_sigterm_and_sigint_leave_a_checkpoint(self):
        graph = self.build(SPEC, 2)
        for number in (signal.SIGTERM, signal.SIGINT):
            command, output = self.train_command('--graph', graph, *JOB)
            process, log = self.start([RUN, '-n', 2, '--', *command[1:]])
            self.wait_for_steps(process, log, output, 2)
            code, text = self.stop(process, log, number)
            self.assertEqual(code, STOPPED, text)
            self.assertTrue((output / 'checkpoint.safetensors').exists(), text)

    def test_stands_in_for_the_mpirun_of_a_shell(self):
        """After `source launch/mpi-env`, Ctrl-C of mpirun strata-train leaves a checkpoint, says so, and nothing else."""
        graph = self.build(SPEC, 2)
        for number in (signal.SIGINT, signal.SIGTERM):
            command, output = self.train_command('--graph', graph, *JOB)
            line = ' '.join(map(str, ['mpirun', '-n', 2, *command]))
            process, log = self.start(['bash', '-c', f'source {RUN.parent}/mpi-env; {line}; echo "exit code $?"'])
            self.wait_for_steps(process, log, output, 2)
            launcher = subprocess.run(['pgrep', '-P', str(process.pid)], text=True, capture_output=True).stdout.split()
            self.assertEqual(len(launcher), 1)
            os.kill(int(launcher[0]), number)
            process.wait(timeout=e2e.PATIENCE)
            text = log.read_text()
            self.assertIn(f'exit code {STOPPED}', text)
            self.assertIn(f'strata-train --resume {output}', text)
            self.assertNotRegex(text, 'mpirun|-{60}|ORTE')   # the banner has rules of tables
            self.assertTrue((output / 'checkpoint.safetensors').exists(), text)

    def test_says_that_a_rank_was_killed(self):
        """mpirun keeps silent, because its pages about exit codes are turned off."""
        command, output = self.train_command('--graph', self.build(SPEC, 2), *JOB)
        process, log = self.start([RUN, '-n', 2, '--', *command[1:]])
        self.wait_for_steps(process, log, output, 1)
        mpirun = subprocess.run(['pgrep', '-P', str(process.pid), '-x', 'mpirun'], text=True, capture_output=True).stdout.split()
        rank = subprocess.run(['pgrep', '-P', mpirun[0], '-x', 'strata-train'], text=True, capture_output=True).stdout.split()[0]
        os.kill(int(rank), signal.SIGKILL)
        self.assertEqual(process.wait(timeout=e2e.PATIENCE), 128 + signal.SIGKILL, log.read_text())
        self.assertIn('a rank was killed by signal 9', log.read_text())

    def test_passes_exit_codes_on(self):
        for options, code, told in [(['--', '--version'], 0, ''), (['--', '--nonsense'], 2, 'nonsense'), ([], 2, 'no -- was given'),
                                    (['--grace', 'x', '--'], 2, 'number of seconds')]:
            done = subprocess.run([str(RUN), *options], env=ENVIRONMENT, text=True, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertIn(told, done.stdout + done.stderr)


class Hosts(Signals):
    """Three hosts, of which one goes."""

    def lose(self, event, launcher):
        """(exit code, seconds from the event, what was printed)"""
        command, output = self.train_command('--graph', self.build(SPEC, 3), *JOB)
        happened = self.folder / 'happened'
        environment = dict(ENVIRONMENT, CLUSTER_EVENT=f'{event}; touch {happened}', CLUSTER_DELAY='0',
                           CLUSTER_WHEN=f'grep -qs step {output}/metrics.jsonl', CLUSTER_LAUNCHER=launcher)
        done = subprocess.run(['sh', str(CLUSTER), '3', '1', *map(str, command[1:])], env=environment, text=True, capture_output=True,
                              timeout=180)
        if done.returncode == e2e.SKIPPED:
            self.skipTest(e2e.reason_to_skip(done.stdout))
        return done.returncode, time.time() - happened.stat().st_mtime, done.stdout + done.stderr

    def test_a_host_that_is_stopped_whole(self):
        code, seconds, text = self.lose('kill -STOP $(ip netns pids $HOST_NETNS_1)', f'{RUN} --grace 3')
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r'rank 1 \(host h1\) has been silent')
        self.assertIn('mpirun waits for another host', text)
        self.assertIn('strata-doctor may find more: mpirun -n 3 strata-doctor --graph', text)   # the watchdog
        self.assertRegex(text, r'strata-doctor may find more: mpirun --host \S+ -n 3 .*strata-doctor\n')   # strata-run
        self.assertLess(seconds, 40, text)
        print(f'a stopped host: ended after {seconds:.1f} s')

    def test_a_link_that_is_lost(self):
        code, seconds, text = self.lose('ip -n $HOST_NETNS_1 link set v0 down', f'{RUN} --grace 3')
        self.assertNotEqual(code, 0, text)
        self.assertRegex(text, 'h1')
        self.assertLess(seconds, 30, text)
        print(f'a lost link: ended after {seconds:.1f} s')


if __name__ == '__main__':
    e2e.main()
