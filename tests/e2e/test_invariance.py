# SPDX-License-Identifier: Apache-2.0
"""Losses do not depend on the number of ranks, machines and parts, nor on how the graph was partitioned."""
import re

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=3000,edges=30000,features=24,classes=5,seed=7'
JOB = ['--fanouts', '4,3', '--hidden', '16', '--global-batch-size', '60', '--epochs', '1', '--optimizer', 'sgd', '--lr', '0.1',
       '--dropout', '0.3', '--log-every', '1', '--eval-every', '0', '--checkpoint-every', '0', '--seed', '11']
STEPS = 20


class Losses(e2e.Case):
    def losses(self, graph, *options, ranks):
        output, _ = self.train(graph, *JOB, *options, ranks=ranks)
        losses = e2e.step_losses(output)
        self.assertGreaterEqual(len(losses), STEPS)
        return losses[:STEPS], e2e.final(output)

    def compare(self, reference, other, what):
        expected, expected_final = reference
        losses, final = other
        self.assertLess(abs(losses[0] - expected[0]), 1e-5 * abs(expected[0]), f'{what}: first step')
        for step, (a, b) in enumerate(zip(losses, expected)):
            self.assertLess(abs(a - b), 1e-4 * abs(b), f'{what}: step {step + 1}')
        self.assertAlmostEqual(final['test']['accuracy'], expected_final['test']['accuracy'], delta=0.005, msg=what)
        self.assertGreater(abs(losses[0] - losses[-1]), 1e-3, f'{what}: nothing was learned')

    def check(self, model, *more, whole_matrix=False):
        """On other ranks, machines and parts; one model in every way, the others in those that together use all of them."""
        parts = {n: self.build(SPEC, n) for n in (1, 3, 4, 5)}
        shuffled = self.build(SPEC, 4, 'random4', '--method', 'random')
        options = ['--model', model, *more]
        reference = self.losses(parts[1], *options, ranks=1)
        asks = ['--replicate-graph', 'off', '--halo-cache', '0']
        keeps = ['--replicate-graph', 'off', '--halo-cache', '40KiB']  # some of what other machines own
        whole = ['--replicate-graph', 'on', '--halo-cache', '0']
        ways = [(parts[3], 3, 0, []), (parts[5], 3, 1, keeps), (shuffled, 2, 1, whole)]
        if whole_matrix:
            ways += [(parts[1], 2, 0, []), (parts[4], 1, 0, []), (parts[5], 2, 1, asks), (parts[3], 3, 1, keeps), (parts[5], 3, 1, asks),
                     (parts[5], 3, 1, whole), (shuffled, 2, 1, []), (shuffled, 1, 0, [])]
        for graph, ranks, machine, exchange in ways:
            run = self.losses(graph, *options, *exchange, '--ranks-per-machine', str(machine), ranks=ranks)
            self.compare(reference, run, f'{model}, {graph.name}, {ranks} ranks, {machine} a machine {exchange}')
        serial = self.losses(parts[1], *options, '--pipeline', 'off', ranks=1)
        self.assertEqual(serial[0], reference[0], 'the pipeline changes no bit')


class Invariance(Losses):
    def test_loader_threads(self):
        job = ['--global-batch-size', '10']  # steps enough to try all numbers of threads of 64 cores
        graph = self.build(SPEC, 1)
        reference = self.losses(graph, *job, '--pipeline', 'off', ranks=1)
        output, done = self.train(graph, *JOB, *job)
        self.assertEqual(e2e.step_losses(output)[:STEPS], reference[0])
        cores = int(re.search(r'(\d+) cores? per rank', done.stdout).group(1))
        if 2 <= cores <= 64:
            self.assertIn(f'of {cores} threads sample and gather beside training: a step takes', done.stderr + done.stdout)

    def test_samplers(self):
        weighted = SPEC + ',weights=lognormal'
        one, three = self.build(weighted, 1, 'weighted1'), self.build(weighted, 3, 'weighted3')
        seen = []
        for options in (['--sampler', 'weighted'], ['--sampler', 'weighted', '--replace'], ['--replace'], ['--sampler', 'labor'],
                        ['--sampler', 'labor-dependent']):
            reference = self.losses(one, *options, ranks=1)
            run = self.losses(three, *options, '--ranks-per-machine', '2', ranks=4)
            self.compare(reference, run, f'{options}, 2 machines of 2 ranks')
            seen.append(reference[0])
        for index, losses in enumerate(seen):
            self.assertNotIn(losses, seen[:index], 'every sampler is one of its own')

    def test_clusters(self):
        """Who trains a seed changes no loss, and makes the ranks of a machine read fewer rows."""
        one, three = self.build(SPEC, 1), self.build(SPEC, 3)
        one_cut, three_cut = (self.build(SPEC, parts, f'clusters{parts}', '--clusters', '5') for parts in (1, 3))
        reference = self.losses(one, ranks=1)
        rows = {}
        for graph, ranks, machine in [(one, 3, 0), (one_cut, 3, 0), (one_cut, 1, 0), (three, 4, 2), (three_cut, 4, 2)]:
            output, _ = self.train(graph, *JOB, '--ranks-per-machine', str(machine), ranks=ranks)
            self.compare(reference, (e2e.step_losses(output)[:STEPS], e2e.final(output)), f'{graph.name}, {ranks} ranks')
            rows[graph.name, ranks] = e2e.metrics(output, 'epoch')[0]['input_rows']
        self.assertLess(rows[one_cut.name, 3], 0.95 * rows[one.name, 3])
        self.assertLess(rows[three_cut.name, 4], rows[three.name, 4])

    def test_four_machines_and_every_way_between_them(self):
        reference = self.losses(self.build(SPEC, 1), ranks=1)
        graph = self.build(SPEC, 5)
        for options in ([], ['--exchange', 'mpi', '--halo-cache', '0'], ['--exchange', 'mpi', '--replicate-graph', 'off'],
                        ['--replicate-graph', 'off', '--halo-cache', '1GiB']):
            run = self.losses(graph, *options, '--ranks-per-machine', '1', ranks=4)
            self.compare(reference, run, f'4 machines {options}')

    def test_rounded_rows_do_not_depend_on_what_is_kept(self):
        """A row of another machine that the halo cache has is what would have been sent."""
        graph = self.build(SPEC, 3)
        for options in ([], ['--eval-fanouts', '3,2', '--start-early']):
            runs = [self.losses(graph, *options, '--row-exchange-precision', 'bf16', '--ranks-per-machine', '1', '--replicate-graph', 'off',
                                '--halo-cache', size, ranks=2) for size in ('0', '30KiB', '8MiB')]
            for losses, final in runs[1:]:
                self.assertEqual(losses, runs[0][0], options)
                self.assertEqual(final['test'], runs[0][1]['test'], options)
        exact, _ = self.losses(graph, *options, '--ranks-per-machine', '1', '--replicate-graph', 'off', ranks=2)
        self.assertNotEqual(exact, runs[0][0], 'something was rounded')

    def test_gcn(self):
        self.check('gcn')

    def test_sage_max(self):
        self.check('sage', '--aggregate', 'max')

    def test_gat(self):
        self.check('gat', '--attention-dropout', '0.2')

    def test_gin(self):
        self.check('gin', '--lr', '0.01')


if __name__ == '__main__':
    e2e.main()
