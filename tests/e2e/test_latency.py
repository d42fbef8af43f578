# SPDX-License-Identifier: Apache-2.0
"""Runs on several machines keep enough batches in flight to hide the latency of the network between them."""
import os
import unittest

import strata_e2e as e2e

SLOW_LINK = e2e.BIN.parent / 'lib/libstrata_slow_link.so'   # an MPI whose messages arrive late
LATENCY_US = 10000
GRAPH = 'planted:parts=2,within=0.8,nodes=20000,edges=200000,features=16,classes=4,train=8000,seed=1'
OPTIONS = ['--fanouts', '4,3', '--hidden', '16', '--batch-size', '100', '--epochs', '2', '--eval-every', '0', '--eval-fanouts', '2,2',
           '--ranks-per-machine', '1', '--replicate-graph', 'off', '--halo-cache', '0', '--log-every', '10']


@unittest.skipUnless(SLOW_LINK.exists(), f'{SLOW_LINK} is not built')
class Latency(e2e.Case):
    def run_on(self, latency_us, *options):
        output = self.folder / f'run{len(list(self.folder.glob("run*")))}'
        words = ['--graph', GRAPH, '--output', output, '--device', 'cpu', *OPTIONS, *options]
        command = e2e.mpirun_command(2, words)
        environment = dict(LD_PRELOAD=str(SLOW_LINK), STRATA_SLOW_LINK_US=str(latency_us))
        command[1:1] = [word for name in environment for word in ('-x', name)]
        done = self.run_program(command, **environment)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return output, done.stderr + done.stdout

    def test_hides_round_trips(self):
        output, text = self.run_on(LATENCY_US)
        setup, = e2e.metrics(output, 'run')
        self.assertGreater(setup['link']['round_seconds'], 0.9e-6 * LATENCY_US)
        self.assertIn('batches in flight', text)
        chosen = [record['batches_in_flight'] for record in e2e.metrics(output, 'traffic')]
        self.assertEqual(len(set(chosen)), 1)
        self.assertGreater(chosen[0], 3, 'a batch takes more than ten round trips')
        one, _ = self.run_on(LATENCY_US, '--pipeline', 'off')
        seconds, slow = (e2e.metrics(folder, 'epoch')[1]['seconds'] for folder in (output, one))
        self.assertLess(seconds, 0.5 * slow, f'{chosen[0]} batches in flight against one')
        self.assertEqual(e2e.step_losses(output), e2e.step_losses(one))


if __name__ == '__main__':
    os.environ.setdefault('OMPI_MCA_mpi_yield_when_idle', '1')
    e2e.main()
