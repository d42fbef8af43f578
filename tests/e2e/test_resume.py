"""A run that was stopped and resumed is, bit for bit, the run that was not; signals end it with a code of their own."""
import signal
import subprocess
import time

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=4000,edges=40000,features=24,classes=5,seed=3'
JOB = ['--fanouts', '5,5', '--hidden', '32', '--batch-size', '25', '--epochs', '10', '--log-every', '1', '--seed', '5']
STOPPED, STOPPED_UNSAVED = 75, 76


class Resume(e2e.Case):
    def setUp(self):
        super().setUp()
        self.graph = self.build(SPEC, 2)

    def interrupt(self, output, number, ranks=2, after=10, options=()):
        """Starts a run, sends mpirun a signal after some steps, and returns its exit code."""
        command = e2e.mpirun_command(ranks, ['--graph', self.graph, '--output', output, '--device', 'cpu', *JOB, *options])
        log = self.folder / f'{output.name}.log'   # a pipe that nobody reads would fill and stop the run
        with log.open('w') as stream:
            # mpirun kills what has not ended in this time after SIGTERM: its default of 1 s is short on a busy machine.
            environment = dict(e2e.ENVIRONMENT, OMPI_MCA_odls_base_sigkill_timeout='5')
            process = subprocess.Popen([str(word) for word in command], env=environment, stdout=stream,
                                       stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 120
        metrics = output / 'metrics.jsonl'
        while time.monotonic() < deadline and process.poll() is None:
            if metrics.exists() and metrics.read_text().count('"step"') >= after:
                break
            time.sleep(0.02)
        if number == signal.SIGUSR1:
            process.send_signal(number)   # mpirun passes it on
        else:   # mpirun would kill the ranks a second later, on a busy machine before their checkpoint: ask them directly
            subprocess.run(['pkill', f'-{int(number)}', '-P', str(process.pid)], check=True)
        process.wait(timeout=60)
        return process.returncode, log.read_text()

    def compare(self, ranks, *options):
        whole, _ = self.train(self.graph, *JOB, *options, ranks=ranks)
        stopped = self.folder / f'stopped{ranks}'
        code, text = self.interrupt(stopped, signal.SIGUSR1, ranks, options=options)
        self.assertEqual(code, STOPPED, text)
        self.assertFalse((stopped / 'checkpoint.safetensors.tmp').exists())
        self.train(self.graph, *JOB, *options, '--resume', ranks=ranks, output=stopped)
        self.assertEqual((whole / 'model.safetensors').read_bytes(), (stopped / 'model.safetensors').read_bytes())
        self.assertEqual((whole / 'checkpoint.safetensors').read_bytes(), (stopped / 'checkpoint.safetensors').read_bytes())
        self.assertEqual(e2e.step_losses(whole), e2e.step_losses(stopped))
        self.assertEqual(e2e.final(whole)['test'], e2e.final(stopped)['test'])

    def test_one_rank(self):
        self.compare(1)

    def test_two_ranks(self):
        self.compare(2)

    def test_with_schedule_clipping_and_accumulation(self):
        self.compare(2, '--lr-schedule', 'cosine', '--warmup-steps', '7', '--clip-grad', '0.5', '--accumulate', '3', '--model', 'gat',
                     '--optimizer', 'adamw', '--weight-decay', '0.01', '--label-smoothing', '0.1', '--on-nan', 'skip')

    def test_sigterm_and_sigint_stop_with_a_checkpoint(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            output = self.folder / f'signal{int(number)}'
            self.interrupt(output, number, options=['--epochs', '5000', '--eval-every', '500'])  # mpirun takes its time
            self.assertTrue((output / 'checkpoint.safetensors').exists(), f'signal {number}')
            self.assertTrue(e2e.final(output)['stopped'])

    def test_repeats_bit_for_bit(self):
        first, _ = self.train(self.graph, *JOB, ranks=2)
        second, _ = self.train(self.graph, *JOB, ranks=2)
        self.assertEqual((first / 'model.safetensors').read_bytes(), (second / 'model.safetensors').read_bytes())

    def test_refuses_other_options(self):
        output, _ = self.train(self.graph, *JOB)
        for options, word in [(['--hidden', '64'], 'hidden'), (['--lr', '0.5'], 'learning_rate'), (['--seed', '6'], 'seed')]:
            _, done = self.train(self.graph, *JOB, *options, '--resume', output=output, expect=2)
            self.assertIn(word, done.stderr)
            self.assertIn('--resume', done.stderr)

    def test_refuses_a_damaged_checkpoint(self):
        output, _ = self.train(self.graph, *JOB)
        checkpoint = output / 'checkpoint.safetensors'
        whole = checkpoint.read_bytes()
        for damaged in (whole[:len(whole) // 2], b'', b'\xff' * 64):
            checkpoint.write_bytes(damaged)
            _, done = self.train(self.graph, *JOB, '--resume', output=output, expect=2)
            self.assertIn('checkpoint.safetensors', done.stderr)


if __name__ == '__main__':
    e2e.main()
