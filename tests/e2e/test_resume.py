# SPDX-License-Identifier: Apache-2.0
"""A run that was stopped and resumed is, bit for bit, the run that was not; signals end it with a code of their own."""
import re
import shutil
import signal
import subprocess

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=4000,edges=40000,features=24,classes=5,seed=3'
JOB = ['--fanouts', '5,5', '--hidden', '32', '--batch-size', '25', '--epochs', '10', '--log-every', '1', '--seed', '5']
STOPPED, STOPPED_UNSAVED = 75, 76


class Resume(e2e.Case):
    def setUp(self):
        super().setUp()
        self.graph = self.build(SPEC, 2)

    def interrupt(self, output, number, *options, ranks=2, after=5):
        return self.signalled(self.graph, output, number, *JOB, *options, ranks=ranks, after=after)

    def compare(self, ranks, *options, after=5):
        whole, _ = self.train(self.graph, *JOB, *options, ranks=ranks)
        stopped = self.folder / f'stopped{ranks}'
        code, text = self.interrupt(stopped, signal.SIGUSR1, *options, ranks=ranks, after=after)
        self.assertEqual(code, STOPPED, text)
        self.assertFalse((stopped / 'checkpoint.safetensors.tmp').exists())
        self.train(self.graph, *JOB, *options, '--resume', ranks=ranks, output=stopped)
        self.assertEqual((whole / 'model.safetensors').read_bytes(), (stopped / 'model.safetensors').read_bytes())
        self.assertEqual((whole / 'checkpoint.safetensors').read_bytes(), (stopped / 'checkpoint.safetensors').read_bytes())
        self.assertEqual(e2e.steps(whole), e2e.steps(stopped))
        self.assertEqual(e2e.step_losses(whole), e2e.step_losses(stopped))
        self.assertEqual(e2e.final(whole)['test'], e2e.final(stopped)['test'])

    def test_one_rank(self):
        self.compare(1)

    def test_two_ranks(self):
        self.compare(2)

    def test_with_schedule_clipping_and_accumulation(self):
        self.compare(2, '--lr-schedule', 'cosine', '--warmup-steps', '7', '--clip-grad', '0.5', '--accumulate', '3', '--model', 'gat',
                     '--optimizer', 'adamw', '--weight-decay', '0.01', '--label-smoothing', '0.1', '--on-nan', 'skip')

    def test_with_patience(self):
        """What the evaluations told so far is kept."""
        steps_an_epoch = 48
        self.compare(2, '--patience', '2', '--eval-every', '2', '--checkpoint-every', '3', '--lr', '0.05', after=5 * steps_an_epoch)

    def test_with_epochs_of_one_step(self):
        """The ranks agree on a stop in a step that is the last of its epoch; no evaluation asks."""
        options = ['--batch-size', '4000', '--epochs', '100', '--eval-every', '100', '--checkpoint-every', '100']
        self.compare(2, *options)
        self.assertTrue(0 < e2e.metrics(self.folder / 'stopped2', 'final')[0]['epochs'] < 100)

    def test_sigterm_and_sigint_stop_with_a_checkpoint(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            output = self.folder / f'signal{int(number)}'
            self.interrupt(output, number, '--epochs', '5000', '--eval-every', '500')  # mpirun takes its time
            self.assertTrue((output / 'checkpoint.safetensors').exists(), f'signal {number}')
            self.assertTrue(e2e.final(output)['stopped'])

    def test_refuses_other_options(self):
        output, _ = self.train(self.graph, *JOB, '--epochs', '1')
        for options, word in [(['--hidden', '64'], '--hidden 64 instead of 32'), (['--lr', '0.5', '--seed', '6'], '--lr 0.5 instead of 0.003, --seed 6 instead of 5')]:
            _, done = self.train(self.graph, *JOB, *options, '--resume', output=output, expect=2)
            self.assertIn(word, done.stderr)
            self.assertIn('--resume', done.stderr)

    def test_refuses_another_graph_of_the_same_size(self):
        output, _ = self.train(self.graph, *JOB, '--epochs', '1')
        other = self.build(SPEC + ',noise=2', 2, 'other')
        _, done = self.train(other, *JOB, '--resume', output=output, expect=2)
        self.assertRegex(done.stderr, r'is of another run: --graph .*\n.*the same graph')

    def test_refuses_another_evaluation(self):
        output, _ = self.train(self.graph, *JOB, '--epochs', '1')
        _, done = self.train(self.graph, *JOB, '--eval-fanouts', '4,4', '--resume', output=output, expect=2)
        self.assertIn('--eval-fanouts [4,4] instead of []', done.stderr)

    def test_a_damaged_checkpoint_is_never_gone_on_from(self):
        whole, _ = self.train(self.graph, *JOB, '--epochs', '4', ranks=2)
        output, _ = self.train(self.graph, *JOB, '--epochs', '2', ranks=2)
        newest, previous = output / 'checkpoint.safetensors', output / 'checkpoint.previous.safetensors'
        good = newest.read_bytes()
        damaged = bytearray(good)
        damaged[len(good) // 2] ^= 16
        for name, contents in [('bit', damaged), ('half', good[:len(good) // 2]), ('nothing', b''), ('other', b'\xff' * 64)]:
            newest.write_bytes(contents)
            resumed = self.folder / f'resumed-{name}'
            shutil.copytree(output, resumed)
            _, done = self.train(self.graph, *JOB, '--epochs', '4', '--resume', output=resumed, ranks=2)
            self.assertRegex(done.stderr + done.stdout, r'going on from .*checkpoint\.previous\.safetensors')
            self.assertEqual((whole / 'model.safetensors').read_bytes(), (resumed / 'model.safetensors').read_bytes())
            self.assertEqual(e2e.steps(whole), e2e.steps(resumed))
        previous.write_bytes(damaged)
        for present in (True, False):
            if not present:
                previous.unlink()
            _, done = self.train(self.graph, *JOB, '--epochs', '4', '--resume', output=output, ranks=2, expect=2)
            self.assertIn('checkpoint.safetensors', done.stderr)
            self.assertEqual(len(re.findall(r'^strata-train', done.stderr, re.M)), 1, 'one message:\n' + done.stderr)

    def test_evaluates_what_was_never_evaluated(self):
        output = self.folder / 'unevaluated'
        code, text = self.interrupt(output, signal.SIGUSR1, '--eval-every', '0', after=60)
        self.assertEqual(code, STOPPED, text)
        trained = e2e.progress(output / 'checkpoint.safetensors')['epoch']
        self.assertGreaterEqual(trained, 1, 'stopped too early')
        self.train(self.graph, *JOB, '--eval-every', '0', '--epochs', trained, '--resume', ranks=2, output=output)
        self.assertGreater(e2e.final(output)['best_epoch'], 0)
        self.assertTrue((output / 'model.safetensors').exists())


class Folder(e2e.Case):
    """What runs leave in a folder, and what they do not do to each other there."""

    def setUp(self):
        super().setUp()
        self.graph = self.build(SPEC, 2)

    def start(self, output, *options):
        command = e2e.mpirun_command(2, ['--graph', self.graph, '--output', output, '--device', 'cpu', *JOB, *options])
        self.log = self.folder / f'{output.name}.log'
        with self.log.open('w') as stream:
            return subprocess.Popen([str(word) for word in command], env=e2e.ENVIRONMENT, stdout=stream, stderr=subprocess.STDOUT)

    def wait_for(self, path):
        e2e.wait_until(path.exists, self.log)

    def test_has_one_run_at_a_time(self):
        output = self.folder / 'shared'
        first = self.start(output, '--epochs', '5000', '--eval-every', '500')
        try:
            self.wait_for(output / 'checkpoint.safetensors')
            before = (output / 'metrics.jsonl').read_text()
            for options in ([], ['--resume']):
                _, done = self.train(self.graph, *JOB, *options, ranks=2, output=output, expect=2)
                self.assertRegex(done.stderr, r'process \d+ on host \S+ trains there')
            self.assertTrue((output / 'metrics.jsonl').read_text().startswith(before), 'the first run is left alone')
        finally:
            subprocess.run(['pkill', '-9', '-P', str(first.pid)])
            first.wait(timeout=e2e.PATIENCE)
        for name in ('checkpoint.safetensors.tmp4000000', 'model.safetensors.tmp7', 'metrics.jsonl.tmp1'):
            (output / name).write_text('half written')
        epochs = e2e.progress(output / 'checkpoint.safetensors')['epoch'] + 1
        self.train(self.graph, *JOB, '--epochs', epochs, '--resume', output=output, ranks=2)
        self.assertEqual(sorted(path.name for path in output.iterdir()),
                         ['checkpoint.previous.safetensors', 'checkpoint.safetensors', 'config.toml', 'metrics.jsonl', 'model.safetensors',
                          'train.log'])
        self.assertEqual(len(e2e.steps(output)), len(set(e2e.steps(output))))

    def test_says_that_nothing_is_left_to_train(self):
        output, job = self.folder / 'finished', [*JOB, '--epochs', '2']
        self.train(self.graph, *job, output=output)
        _, done = self.train(self.graph, *job, '--resume', output=output)
        self.assertIn('nothing is left to train: the run has done 2 of 2 epochs', done.stderr)
        self.assertIn('best epoch', done.stdout)
        self.assertNotIn('seeds/s', done.stdout)
        self.assertNotIn('gradients over', done.stdout, 'one rank has none to sum')

    def test_may_lie_beside_a_manifest_of_another_program(self):
        (self.folder / 'manifest.json').write_text('{"manifest_version": 3, "name": "an extension"}')
        self.train(self.graph, *JOB, '--epochs', '1', output=self.folder / 'run')
        _, done = self.train(self.graph, *JOB, output=self.graph / 'run', expect=2)
        self.assertIn('is a directory of part files', done.stderr)


if __name__ == '__main__':
    e2e.main()
