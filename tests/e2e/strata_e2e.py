# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the programs under test, temporary folders, and readers of their output.

STRATA_BIN is the folder of the built programs. STRATA_DATA is the folder of real graphs; tests that need it skip without it.
"""
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ['STRATA_BIN'])
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get('STRATA_DATA', REPOSITORY.parent / 'shared' / 'data'))
PATIENCE = 300   # seconds for what takes few of them; only a run that hangs takes as long
SKIPPED = 77   # the exit code of a test program whose every case was skipped
MPIRUN = shutil.which('mpirun') or 'mpirun'
ENVIRONMENT = dict(os.environ, OMPI_MCA_btl_vader_single_copy_mechanism='none', OMPI_ALLOW_RUN_AS_ROOT='1',
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', OMPI_MCA_mpi_yield_when_idle='1')


def needs_data(folder):
    return unittest.skipUnless((DATA / folder).exists(), f'{DATA / folder} is missing; set STRATA_DATA')


def num_gpus():
    if shutil.which('nvidia-smi') is None:
        return 0
    listed = subprocess.run(['nvidia-smi', '-L'], text=True, capture_output=True)
    return listed.stdout.count('GPU ') if listed.returncode == 0 else 0


def has_gpu():
    return num_gpus() > 0


def mpirun_command(ranks, arguments, program='strata-train'):
    return [MPIRUN, '-n', str(ranks), '--oversubscribe', '--bind-to', 'none', str(BIN / program), *map(str, arguments)]


class Case(unittest.TestCase):
    """A test with a folder of its own and the programs at hand."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix='strata-e2e-')
        self.folder = pathlib.Path(self._folder.name)
        self.addCleanup(self._folder.cleanup)

    def run_program(self, command, timeout=180, **environment):
        """Runs it with further variables in its environment."""
        return subprocess.run([str(word) for word in command], env=dict(ENVIRONMENT, **environment), text=True, capture_output=True,
                              timeout=timeout)

    def build(self, spec, parts, name=None, *options):
        """Partitions `spec`; returns the directory."""
        output = self.folder / (name or f'parts{parts}')
        done = self.run_program([BIN / 'strata-partition', 'build', '--input', spec, '--parts', parts, '--output', output, *options])
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return output

    def train(self, graph, *options, ranks=1, output=None, expect=0, timeout=300):
        """Runs strata-train and checks its exit code; returns (output folder, completed process)."""
        output = output or self.folder / f'run{len(list(self.folder.glob("run*")))}'
        arguments = ['--graph', graph, '--output', output, '--device', 'cpu', *options]
        # After a failure mpirun waits for other ranks where there are none, and may lose what this one said last.
        command = [BIN / 'strata-train', *arguments] if ranks == 1 and expect else mpirun_command(ranks, arguments)
        done = self.run_program(command, timeout)
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout)
        return output, done

    def predict(self, run, graph, *options, ranks=1):
        """Writes the logits that a run's model gives all nodes; returns the file."""
        logits = self.folder / f'logits-{run.name}.npy'
        done = self.run_program(mpirun_command(ranks, ['predict', run, '--graph', graph, '--output', logits, '--device', 'cpu', *options]))
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return logits

    def again_if_complete(self, output, run):
        """What run() returns, a run's exit code and what it told. A run that was complete before its signal came begins anew, in the
        folder as it was: on a busy machine a test may be told of a step when all others are over."""
        before = self.folder / f'{output.name}.before'
        if output.exists():
            shutil.copytree(output, before)
        for _ in range(5):
            code, text = run()
            if code != 0:
                break
            shutil.rmtree(output)
            if before.exists():
                shutil.copytree(before, output)
        shutil.rmtree(before, ignore_errors=True)
        return code, text

    def signalled(self, graph, output, number, *options, ranks=2, after=10):
        """Starts a run, sends it a signal when it has told of so many steps, and returns mpirun's exit code and the output."""
        self.assertGreater(after, 0, 'before the first step nothing is written')
        return self.again_if_complete(output, lambda: self.signalled_once(graph, output, number, *options, ranks=ranks, after=after))

    def signalled_once(self, graph, output, number, *options, ranks, after):
        arguments = ['--graph', graph, '--output', output, '--device', 'cpu', *options]
        # After a rank's exit code mpirun waits twice the time below, even for nobody.
        command = [BIN / 'strata-train', *arguments] if ranks == 1 else mpirun_command(ranks, arguments)
        log = self.folder / f'{output.name}.log'   # a pipe that nobody reads would fill and stop the run
        with log.open('w') as stream:
            # mpirun kills what has not ended in this time after SIGTERM: its default of 1 s is short on a busy machine.
            environment = dict(ENVIRONMENT, OMPI_MCA_odls_base_sigkill_timeout='5')
            process = subprocess.Popen([str(word) for word in command], env=environment, stdout=stream, stderr=subprocess.STDOUT)
        metrics_file = output / 'metrics.jsonl'
        wait_until(lambda: process.poll() is not None or (metrics_file.exists() and len(steps(output)) >= after), log)
        if number == signal.SIGUSR1 or ranks == 1:
            process.send_signal(number)   # mpirun passes it on
        else:   # mpirun would kill the ranks soon, on a busy machine before their checkpoint: ask them directly
            subprocess.run(['pkill', f'-{int(number)}', '-P', str(process.pid)])
        process.wait(timeout=PATIENCE)
        return process.returncode, log.read_text()


def wait_until(holds, log=None):
    """Waits for a fact: holds() is asked until it returns something true, which is returned."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if result := holds():
            return result
        time.sleep(0.02)
    raise AssertionError(f'not within {PATIENCE} s' + (f': {log.read_text()}' if log and log.exists() else ''))


def heeds(process, number):
    """Whether a process blocks or handles a signal, which would otherwise end it: a program has to come that far first."""
    status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(('SigBlk:', 'SigCgt:'))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def metrics(output, kind):
    """The records of one type in metrics.jsonl."""
    lines = (output / 'metrics.jsonl').read_text().splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.endswith('\n')]   # a run may be writing the last one
    return [record for record in records if record['type'] == kind]


def progress(checkpoint):
    """How far a run had come when it wrote this checkpoint."""
    with checkpoint.open('rb') as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
    return json.loads(header['__metadata__']['progress'])


def steps(output):
    return [(record['epoch'], record['step']) for record in metrics(output, 'step')]


def step_losses(output):
    return [record['loss'] for record in metrics(output, 'step')]


def final(output):
    return metrics(output, 'final')[-1]


def joined(output):
    """In one line, because programs break theirs."""
    return ' '.join(output.split())


def reason_to_skip(output):
    """What a script that exited with SKIPPED printed as its reason."""
    return output.strip().rsplit('-- skipped: 1 of 1 cases: ', 1)[-1]


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    """Exits with SKIPPED where every case was skipped; run_ctest.py reads the lines about skipped cases."""
    result = unittest.main(argv=sys.argv, testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Result), exit=False).result
    cases = result.passed + len(result.skipped) + len(result.failures) + len(result.errors)
    for reason, count in collections.Counter(reason for _, reason in result.skipped).items():
        print(f'-- skipped: {count} of {cases} cases: {reason}', flush=True)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and not result.passed else 0)
