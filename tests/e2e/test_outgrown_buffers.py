# SPDX-License-Identifier: Apache-2.0
"""Steps that were recorded are recorded anew when a batch outgrows its buffers. Skipped where there is no GPU."""
import os
import shlex
import unittest

import numpy
import strata_e2e as e2e

LEFT, RIGHT, HUBS, DEGREE = 32768, 20000, 100, 200
JOB = ['--device', 'cuda', '--model', 'sage', '--hidden', '16', '--batch-size', '16384', '--optimizer', 'sgd', '--lr', '0.1',
       '--dropout', '0.3', '--log-every', '1', '--eval-every', '0', '--checkpoint-every', '0', '--seed', '5']
# A prefix for the program, such as "compute-sanitizer --error-exitcode 9".
WRAPPER = shlex.split(os.environ.get('STRATA_TEST_WRAPPER', ''))


def write_bipartite(folder):
    """Every left node has half of its in-edges from the same hubs. LABOR takes a hub for all seeds or for none, so that the edges
    of a batch vary much more than its buffers have room for."""
    random = numpy.random.default_rng(3)
    hubs = numpy.tile(numpy.arange(HUBS), (LEFT, 1))
    others = numpy.stack([HUBS + random.choice(RIGHT - HUBS, DEGREE - HUBS, replace=False) for _ in range(64)])
    others = (others[numpy.arange(LEFT) % 64] - HUBS + random.integers(0, RIGHT - HUBS, (LEFT, 1))) % (RIGHT - HUBS) + HUBS
    src = LEFT + numpy.concatenate([hubs, others], axis=1).reshape(-1)
    dst = numpy.repeat(numpy.arange(LEFT), DEGREE)
    labels = random.integers(0, 4, LEFT + RIGHT)
    features = random.normal(size=(LEFT + RIGHT, 8)).astype(numpy.float32) + labels[:, None]
    folder.mkdir()
    for name, array in {'edges': numpy.stack([src, dst]), 'feat': features, 'train': numpy.arange(LEFT), 'train_labels': labels[:LEFT],
                        'valid': LEFT + numpy.arange(100), 'valid_labels': labels[LEFT:LEFT + 100]}.items():
        numpy.save(folder / f'{name}.npy', array)
    entry = '{{format: numpy, path: {0}.npy}}'
    (folder / 'metadata.yaml').write_text(f'''dataset_name: bipartite
graph:
  nodes: [{{num: {LEFT + RIGHT}}}]
  edges: [{entry.format('edges')}]
feature_data: [{{domain: node, name: feat, format: numpy, path: feat.npy}}]
tasks:
  - name: node_classification
    num_classes: 4
    train_set: [{{data: [{entry.format('train')}, {entry.format('train_labels')}]}}]
    validation_set: [{{data: [{entry.format('valid')}, {entry.format('valid_labels')}]}}]
''')


@unittest.skipUnless(e2e.has_gpu(), 'no GPU')
class OutgrownBuffers(e2e.Case):
    def losses(self, graph, *options):
        output = self.folder / f'run{len(list(self.folder.glob("run*")))}'
        command = e2e.mpirun_command(1, ['--graph', graph, '--output', output, *JOB, *options])
        program = command.index(str(e2e.BIN / 'strata-train'))
        done = self.run_program(command[:program] + WRAPPER + command[program:], 600)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return e2e.step_losses(output), e2e.metrics(output, 'epoch')

    def test_labor_on_hubs(self):
        write_bipartite(self.folder / 'bipartite')
        graph = self.build(f'graphbolt:{self.folder / "bipartite"}', 1)
        for fanouts, sampler in (('10', 'cuda'), ('10,3', 'cuda'), ('10', 'cpu')):
            options = ['--sampler', 'labor', '--fanouts', fanouts, '--eval-fanouts', fanouts, '--sampler-device', sampler, '--epochs', '40']
            expected, _ = self.losses(graph, *options, '--cuda-graph', 'off')
            losses, epochs = self.losses(graph, *options, '--cuda-graph', 'on')
            self.assertEqual(len(losses), 80)
            self.assertEqual(losses, expected, f'{fanouts} {sampler}')
            self.assertGreater(sum(epoch['unpadded_batches'] for epoch in epochs), 3, 'no batch outgrew its shape')


if __name__ == '__main__':
    e2e.main()
